#include "bind.hpp"

#include "functions.hpp"

namespace linmed {

// out[i] = f(x[i]), one at a time or eight at once.
template <class F> static void over(nb::module_ &m, const char *name, F f) {
    m.def(name, [f](In<1> x, Out<1> out) {
        demand(x.shape(0) == out.shape(0), "x and out must have the same length");
        for (std::size_t i = 0; i < x.shape(0); ++i) out.data()[i] = f(x.data()[i]);
    }, "x"_a.noconvert(), "out"_a.noconvert());
}
template <class F> static void over_lanes(nb::module_ &m, const char *name, F f) {
    m.def(name, [f](In<1> x, Out<1> out) {
        demand(x.shape(0) == out.shape(0) && x.shape(0) % LANES == 0, "x and out must have the same length, whole eights");
        for (std::size_t i = 0; i < x.shape(0); i += LANES) store(out.data() + i, f(load(x.data() + i)));
    }, "x"_a.noconvert(), "out"_a.noconvert());
}

void bind_functions(nb::module_ &m) {
    nb::module_ functions = m.def_submodule("functions", "exp, log and their relatives over arrays, for tests.");
    over(functions, "exp", [](double x) { return exp(x); });
    over(functions, "exp2", [](double x) { return exp2(x); });
    over(functions, "expm1", [](double x) { return expm1(x); });
    over(functions, "log", [](double x) { return log(x); });
    over(functions, "log1p", [](double x) { return log1p(x); });
    over(functions, "log2", [](double x) { return log2(x); });
    over(functions, "tanh", [](double x) { return tanh(x); });
    over(functions, "lgamma", [](double x) { return lgamma(x); });
    over(functions, "erfc", [](double x) { return erfc(x); });
    over(functions, "sin", [](double x) { return sin(x); });
    over(functions, "cos", [](double x) { return cos(x); });
    over_lanes(functions, "exp_lanes", [](Lanes x) { return exp(x); });
    over_lanes(functions, "log_lanes", [](Lanes x) { return log(x); });
    over_lanes(functions, "expm1_lanes", [](Lanes x) { return expm1(x); });
    over_lanes(functions, "log1p_lanes", [](Lanes x) { return log1p(x); });
    functions.def("atan2", [](In<1> y, In<1> x, Out<1> out) {
        demand(x.shape(0) == out.shape(0) && y.shape(0) == out.shape(0), "y, x and out must have the same length");
        for (std::size_t i = 0; i < x.shape(0); ++i) out.data()[i] = atan2(y.data()[i], x.data()[i]);
    }, "y"_a.noconvert(), "x"_a.noconvert(), "out"_a.noconvert());
}

}  // namespace linmed
