// The arrays of estimates, with which the states of many beliefs begin.
#pragma once

#include "bind.hpp"
#include "glm.hpp"
#include "item_models.hpp"
#include "ridge.hpp"

namespace linmed {

// Whether the counts, the array at `place`, are what is left of numbers of rewards, where the past fades.
inline bool fades(const Arrays &arrays, std::size_t place) {
    Array<double, 1> count;
    return place < arrays.owned.size() && nb::try_cast(arrays.owned[place], count, false);
}

// The first ten arrays of every belief that is made of ridge estimates.
template <class Count> RidgeRows<Count> ridge_rows(Arrays &arrays) {
    const Index rows = arrays.length<double, 2>("theta", 0, 0), d = arrays.length<double, 2>("theta", 0, 1);
    RidgeRows<Count> model{};
    model.rows = rows, model.d = d;
    model.theta = arrays.floats("theta", {rows, d});
    model.counts = arrays.take<Count, 1>("count", {rows});
    model.gram = arrays.floats("gram", {rows, d, d});
    model.gram_low = arrays.floats("gram_low", {rows, d, d});
    model.inverse = arrays.floats("inverse", {rows, d, d});
    model.moment = arrays.floats("moment", {rows, d});
    model.moment_low = arrays.floats("moment_low", {rows, d});
    model.logdet = arrays.floats("logdet", {rows});
    model.rss = arrays.floats("rss", {rows});
    model.leveraged = arrays.floats("leveraged", {rows});
    return model;
}

// The first twelve arrays of every belief that is made of generalised linear models.
template <class Count> GlmRows<Count> glm_rows(Arrays &arrays) {
    const Index rows = arrays.length<double, 2>("theta", 0, 0), d = arrays.length<double, 2>("theta", 0, 1);
    GlmRows<Count> model{};
    model.rows = rows, model.d = d;
    model.theta = arrays.floats("theta", {rows, d});
    model.intercept = arrays.floats("intercept", {rows});
    model.counts = arrays.take<Count, 1>("count", {rows});
    model.gram = arrays.floats("gram", {rows, d + 1, d + 1});
    model.gram_low = arrays.floats("gram_low", {rows, d + 1, d + 1});
    model.inverse = arrays.floats("inverse", {rows, d, d});
    model.cross = arrays.floats("cross", {rows, d});
    model.corner = arrays.floats("corner", {rows});
    model.logdet = arrays.floats("logdet", {rows});
    model.excess = arrays.floats("excess", {rows});
    model.surprise = arrays.floats("surprise", {rows});
    model.told = arrays.floats("told", {rows, Index(GlmRows<Count>::TOLD)});
    return model;
}

// The arrays of models of items, behind those of estimates with Rows: nothing, or all of them.
template <class Rows> ItemRows<Rows> item_rows(Arrays &arrays, const Rows &shared) {
    const Index R = shared.rows, m = shared.d + ItemRows<Rows>::FIRST;
    const Index rows = arrays.next_length<double, 3>("own", 2, 0), c = arrays.next_length<double, 3>("own", 2, 2);
    demand(R > 0 && rows > 0 && rows % R == 0, "own must have as many models for every estimate");
    ModelRows models{};
    models.n = rows / R, models.m = m, models.c = c;
    models.known = arrays.ints("known", {R});
    models.pulls = arrays.ints("pulls", {rows});
    models.own = arrays.floats("own", {rows, 1 + m, c});
    models.gram = arrays.floats("own_gram", {rows, c, c});
    models.gram_low = arrays.floats("own_gram_low", {rows, c, c});
    models.inverse = arrays.floats("own_inverse", {rows, c, c});
    models.moment = arrays.floats("own_moment", {rows, 1 + m, c});
    models.moment_low = arrays.floats("own_moment_low", {rows, 1 + m, c});
    if constexpr (ItemRows<Rows>::FADES) models.stamp = arrays.floats("stamp", {rows});
    return {shared, models};
}

// A belief whose estimates have Rows: itself, or with the answers of models of items.
template <class Base, class Rows>
using Whole = std::conditional_t<requires(Rows rows) { rows.models; }, OfItems<Base>, Base>;

// make(rows): a belief in one model of all arms or, where there are arrays left, in one of every item.
template <class Rows, class Make> Held<Belief> of_all_or_items(Arrays &arrays, const Rows &shared, Make make) {
    if (!arrays.left()) return make(shared);
    return make(item_rows(arrays, shared));
}

}  // namespace linmed
