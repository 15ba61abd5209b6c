// The module that Python imports.
#include "bind.hpp"

#include <chrono>

#include "rounds.hpp"

namespace linmed {

// Every tenth of a second or so, see whether a signal has come: Ctrl-C ends rounds as it ends Python code.
static void look_for_signals() {
    using Clock = std::chrono::steady_clock;
    static thread_local int calls = 0;
    static thread_local Clock::time_point last = Clock::now();
    if (++calls < 16) return;
    calls = 0;
    const auto now = Clock::now();
    if (now - last < std::chrono::milliseconds(50)) return;
    last = now;
    nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace linmed

NB_MODULE(LINMED_MODULE, m) {
    using namespace linmed;
    between_rounds = look_for_signals;
    nb::set_leak_warnings(false);  // policies, which hold rules, may live until the interpreter ends
    nb::class_<Held<Belief>>(m, "Belief");
    nb::class_<Held<Set>>(m, "Set")
        .def_ro("name", &Held<Set>::name)
        .def_ro("numbers", &Held<Set>::numbers)
        .def("__repr__", [](const Held<Set> &set) {
            std::string said;
            for (auto [name, number] : set.numbers)
                said += (said.empty() ? "" : ", ") + nb::cast<std::string>(name) + "=" + nb::repr(number).c_str();
            return set.name + "(" + said + ")";
        });
    nb::class_<Held<Rule>>(m, "Rule")
        .def_prop_ro("asks", [](const Held<Rule> &rule) { return rule->asks(); })
        .def_prop_ro("prices", [](const Held<Rule> &rule) { return rule->prices(); });
    bind_rounds(m);
    bind_ridge(m);
    bind_glm(m);
    bind_models(m);
    bind_rules(m);
    bind_designs(m);
    bind_thompson(m);
    bind_e2d(m);
    bind_ope(m);
    bind_functions(m);
}
