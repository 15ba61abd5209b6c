// What the bindings share: NumPy arrays in, nothing copied, the interpreter's lock released.
//
// Python holds beliefs, sets and rules as `Held` objects: the C++ object and the arrays that it works on. A family has one
// file bind_*.cpp, whose function is called by module.cpp.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <string>
#include <vector>

#include "belief.hpp"

// Arrays whose numbers lie at addresses that are no multiples of their size are refused, like those of a wrong type.
template <class T, class Shape>
struct nanobind::detail::type_caster<nanobind::ndarray<T, Shape, nanobind::c_contig, nanobind::device::cpu>> {
    using Whole = ndarray<T, Shape, c_contig, device::cpu>;
    using Same = ndarray<T, Shape, device::cpu, c_contig>;  // by another name, for nanobind's own caster
    using Inner = type_caster<Same>;
    NB_TYPE_CASTER(Whole, Inner::Name)
    bool from_python(handle source, uint32_t flags, cleanup_list *cleanup) noexcept {
        Inner inner;
        if (!inner.from_python(source, flags, cleanup) || std::uintptr_t(inner.value.data()) % alignof(T)) return false;
        value = Whole(inner.value);
        return true;
    }
    static handle from_cpp(const Whole &array, rv_policy policy, cleanup_list *cleanup) noexcept {
        return Inner::from_cpp(Same(array), policy, cleanup);
    }
};

namespace linmed {

namespace nb = nanobind;
using namespace nb::literals;

template <class T, int n> using Array = nb::ndarray<T, nb::ndim<n>, nb::c_contig, nb::device::cpu>;
template <int n> using In = Array<const double, n>;    // read
template <int n> using Out = Array<double, n>;         // written
template <int n> using InInts = Array<const int64_t, n>;
template <int n> using OutInts = Array<int64_t, n>;
template <int n> using InBools = Array<const bool, n>;
template <int n> using OutBools = Array<bool, n>;

inline void demand(bool holds, const char *message) {
    if (!holds) throw nb::value_error(message);
}

// The lock is given up for the life of this object; below some work, handing it over takes longer than the work.
struct Unlocked {
    std::optional<nb::gil_scoped_release> release;
    explicit Unlocked(Index numbers = 1 << 20) {
        if (numbers > 1000) release.emplace();
    }
};

// An object of the core and what must live as long as it does; of a set also its name and the numbers that it was given.
template <class T> struct Held {
    std::shared_ptr<T> object;
    std::vector<nb::object> owned;
    std::string name{};
    nb::dict numbers{};
    T *operator->() const { return object.get(); }
    T &operator*() const { return *object; }
};

// The arrays of a state, taken one after the other; each must have the shape that is asked for.
class Arrays {
  public:
    explicit Arrays(nb::args arrays) {
        for (nb::handle array : arrays) owned.push_back(nb::borrow(array));
    }

    std::vector<nb::object> owned;

    template <class T, int n> T *take(const char *name, const Index (&shape)[n]) {
        const auto array = next<T, n>(name);
        for (int i = 0; i < n; ++i)
            if (Index(array.shape(i)) != shape[i]) {
                std::string wanted;
                for (Index size : shape) wanted += (wanted.empty() ? "" : ", ") + std::to_string(size);
                throw nb::value_error((std::string(name) + " must have shape (" + wanted + ")").c_str());
            }
        return array.data();
    }
    template <int n> double *floats(const char *name, const Index (&shape)[n]) { return take<double, n>(name, shape); }
    template <int n> int64_t *ints(const char *name, const Index (&shape)[n]) { return take<int64_t, n>(name, shape); }

    // The length of axis `axis` of the array at `place`, which has n axes.
    template <class T, int n> Index length(const char *name, std::size_t place, int axis) {
        return Index(get<T, n>(name, place).shape(axis));
    }
    // The same of the array `ahead` of those taken.
    template <class T, int n> Index next_length(const char *name, std::size_t ahead, int axis) {
        return length<T, n>(name, taken_ + ahead, axis);
    }
    bool left() const { return taken_ < owned.size(); }
    void done() {
        if (taken_ != owned.size())
            throw nb::type_error(("takes " + std::to_string(taken_) + " arrays, got " + std::to_string(owned.size())).c_str());
    }

  private:
    std::size_t taken_ = 0;

    template <class T, int n> Array<T, n> get(const char *name, std::size_t place) {
        Array<T, n> array;
        if (place >= owned.size()) throw nb::type_error((std::string(name) + " is missing").c_str());
        if (!nb::try_cast(owned[place], array, false))
            throw nb::type_error((std::string(name) + " must be a writable C-contiguous array of " + std::to_string(n) +
                                  (std::is_same_v<T, double> ? " axes of float64" : " axes of int64")).c_str());
        return array;
    }
    template <class T, int n> Array<T, n> next(const char *name) { return get<T, n>(name, taken_++); }
};

template <class T> Held<Belief> hold_belief(std::unique_ptr<T> belief, Arrays &arrays) {
    arrays.done();
    return {std::shared_ptr<Belief>(std::move(belief)), std::move(arrays.owned)};
}
template <class T, class... A> Held<Rule> rule(A &&...arguments) {
    return {std::make_shared<T>(std::forward<A>(arguments)...), {}};
}
// A function that makes a set T from numbers of the types A: define_set<FixedSet, double>(m, "FixedSet", "beta").
template <class T, class... A, class... Names> void define_set(nb::module_ &m, const char *name, Names... names) {
    m.def(name, [name, names...](A... given) {
        nb::dict numbers;
        ((numbers[names] = nb::cast(given)), ...);
        return Held<Set>{std::make_shared<T>(given...), {}, name, numbers};
    }, nb::arg(names)...);
}

// One function for each family.
void bind_rounds(nb::module_ &m);     // play, observe, Live, radii; sampling
void bind_ridge(nb::module_ &m);      // ridge estimates: alone, centred, experts, warm, faded, windowed; their sets
void bind_glm(nb::module_ &m);        // generalised linear models and their sets; forgetting of both kinds
void bind_models(nb::module_ &m);     // a model for every item; catalogues; scan
void bind_rules(nb::module_ &m);      // MED, optimism, greed, IGW, RandUCB, Maillard, Pinpoint, EXP2, openings
void bind_designs(nb::module_ &m);    // designs, and rules made of them: warm, SpannerIGW, EXP2, those of the public code
void bind_thompson(nb::module_ &m);   // Thompson sampling and its integrals
void bind_e2d(nb::module_ &m);        // E2D's program
void bind_ope(nb::module_ &m);        // sums, sequences, online regressions, verdict
void bind_functions(nb::module_ &m);  // exp, log, …, for tests

}  // namespace linmed
