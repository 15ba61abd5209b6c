// Standard normals at the points of a scrambled Sobol set: low-discrepancy points for integrals in many dimensions.
//
// The points are those of scipy.stats.qmc.Sobol(dim, seed=np.random.default_rng(0)), to the last bit: the direction
// numbers of Joe & Kuo (2008), a random linear scramble and a digital shift (Matoušek 1998), 30 bits.
#pragma once

#include <bit>
#include <memory>
#include <mutex>
#include <vector>

#include "matrices.hpp"
#include "normal.hpp"

namespace linmed {

namespace sobol {

constexpr int BITS = 30;
constexpr Index DIMENSIONS = 161;  // those of all primitive polynomials up to degree 10; see `fill` for more
inline const char *table();

__extension__ typedef unsigned __int128 Wide;
constexpr Wide wide(uint64_t high, uint64_t low) { return Wide(high) << 64 | low; }

// The bits that scramble: what NumPy's default generator, PCG64 (O'Neill 2014), draws below 2 after this state.
class Coins {
  public:
    uint64_t toss() {
        if (left_ == 0) {
            state_ = state_ * MULTIPLIER + INCREMENT;
            const uint64_t high = uint64_t(state_ >> 64), low = uint64_t(state_);
            word_ = std::rotr(high ^ low, int(high >> 58));
            left_ = 2;
        }
        return word_ >> (--left_ ? 31 : 63) & 1;  // the top bit of each half
    }

  private:
    static constexpr Wide MULTIPLIER = wide(0x2360ED051FC65DA4, 0x4385DF649FCCF645);
    static constexpr Wide INCREMENT = wide(0xCD7472B7376A4446, 0xDF3664221FC3C153);
    Wide state_ = wide(0x9DC7E5C5548209EF, 0xE5F1B57E8273DB25);
    uint64_t word_ = 0;
    int left_ = 0;
};

// The directions of one dimension after the other.
class Directions {
  public:
    void next(uint32_t *v) {
        for (int i = 0; i < BITS; ++i) v[i] = 1;
        if (dimension_ > 0) {
            if (++seen_ > OF_DEGREE[degree_]) ++degree_, seen_ = 1;
            const uint32_t middle = take(degree_ - 1);  // of the polynomial: its first and last coefficients are 1
            for (int i = 0; i < degree_; ++i) v[i] = take(i) << 1 | 1;
            for (int i = degree_; i < BITS; ++i) {
                v[i] = v[i - degree_] ^ v[i - degree_] << degree_;
                for (int k = 1; k < degree_; ++k)
                    if (middle >> (degree_ - 1 - k) & 1) v[i] ^= v[i - k] << k;
            }
        }
        ++dimension_;
        for (int i = 0; i < BITS; ++i) v[i] <<= BITS - 1 - i;
    }

  private:
    static constexpr int OF_DEGREE[] = {0, 1, 1, 2, 2, 6, 6, 18, 16, 48, 60};  // primitive polynomials
    Index dimension_ = 0, place_ = 0;
    int degree_ = 1, seen_ = 0;

    uint32_t take(int bits) {  // six in every character, the lowest first
        uint32_t word = 0;
        for (int k = 0; k < bits; ++k, ++place_) word |= (uint32_t(table()[place_ / 6] - '0') >> place_ % 6 & 1) << k;
        return word;
    }
};

// normals (dim, points). Dimensions beyond the table get hashed normals: callers put the coordinates that matter first.
inline void fill(double *normals, Index dim, Index points) {
    const Index even = std::min(dim, DIMENSIONS);
    Coins coins;
    Directions directions;
    std::vector<uint32_t> shifts(std::size_t(even), 0);
    for (uint32_t &shift : shifts)
        for (int k = 0; k < BITS; ++k) shift |= uint32_t(coins.toss()) << k;
    for (Index j = 0; j < even; ++j) {
        uint32_t v[BITS], row[BITS], turned[BITS] = {};
        for (int p = 0; p < BITS; ++p) {  // a lower triangular matrix with ones on its diagonal
            row[p] = 0;
            for (int k = 0; k < BITS; ++k) {
                const uint32_t coin = uint32_t(coins.toss());
                if (k <= p) row[p] |= (k == p ? 1 : coin) << (BITS - 1 - k);
            }
        }
        directions.next(v);
        for (int i = 0; i < BITS; ++i)
            for (int p = 0; p < BITS; ++p) turned[i] |= uint32_t(std::popcount(row[p] & v[i]) & 1) << (BITS - 1 - p);
        uint32_t point = shifts[std::size_t(j)];
        for (Index i = 0; i < points; ++i) {
            normals[j * points + i] = quantile(double(point) * 0x1p-30 + 0x1p-31);  // zero is among the points
            point ^= turned[std::countr_one(uint32_t(i)) % BITS];
        }
    }
    HashedDraws draws{0};
    double spare;
    for (Index i = even * points; i < dim * points; ++i) {
        draws.pair(normals[i], spare);
        if (++i < dim * points) normals[i] = spare;
    }
}

// Sets of points that have been asked for lately.
class Store {
  public:
    struct Set {
        Index dim, points;  // points is also how far rows are apart
        Buffer normals;     // (dim, points)
        Set(Index dim, Index points) : dim(dim), points(points), normals(dim * points) { fill(normals, dim, points); }
    };

    // At least so many points; the first of them are the same in any number.
    std::shared_ptr<const Set> get(Index dim, Index points) {
        {
            const std::lock_guard<std::mutex> locked(mutex_);
            for (const auto &set : sets_)
                if (set->dim == dim && set->points >= points) return set;
        }
        const auto made = std::make_shared<const Set>(dim, points);
        const std::lock_guard<std::mutex> locked(mutex_);
        std::erase_if(sets_, [&](const auto &set) { return set->dim == dim && set->points < points; });
        Index numbers = made->normals.size();
        for (const auto &set : sets_) numbers += set->normals.size();
        if (numbers > MOST) sets_.clear();
        if (made->normals.size() <= MOST) sets_.push_back(made);
        return made;
    }

  private:
    static constexpr Index MOST = 1 << 23;  // numbers that are held, 64 MiB
    std::mutex mutex_;
    std::vector<std::shared_ptr<const Set>> sets_;
};

}  // namespace sobol

using Normals = std::shared_ptr<const sobol::Store::Set>;

inline Normals sobol_normals(Index dim, Index points) {
    static sobol::Store store;
    return store.get(dim, points);
}

// For every dimension after the first: the middle coefficients of its polynomial of degree s, the highest last, then the
// first s direction numbers, odd ones below 2, 4, 8, …, each without its last bit.
//
// The numbers are those of the file new-joe-kuo-6.21201, Copyright (c) 2008, Frances Y. Kuo and Stephen Joe. All rights
// reserved. Redistribution and use in source and binary forms, with or without modification, are permitted provided that
// the following conditions are met: Redistributions of source code must retain the above copyright notice, this list of
// conditions and the following disclaimer. Redistributions in binary form must reproduce the above copyright notice, this
// list of conditions and the following disclaimer in the documentation and/or other materials provided with the
// distribution. Neither the names of the copyright holders nor the names of the University of New South Wales and the
// University of Waikato and its contributors may be used to endorse or promote products derived from this software without
// specific prior written permission. This software is provided by the copyright holders "as is" and any express or implied
// warranties, including, but not limited to, the implied warranties of merchantability and fitness for a particular purpose
// are disclaimed. In no event shall the copyright holders be liable for any direct, indirect, incidental, special,
// exemplary, or consequential damages (including, but not limited to, procurement of substitute goods or services; loss of
// use, data, or profits; or business interruption) however caused and on any theory of liability, whether in contract,
// strict liability, or tort (including negligence or otherwise) arising in any way out of the use of this software, even if
// advised of the possibility of such damage.
inline const char *sobol::table() {
    return
        R"(G4AQe25BDbiV;1d8UGmQa1g`E5<^aClAHc=FV:m1_kIVhf>R7bCl3Y4HJ>aD\N:Zm?E\9eS[9<ROf@20lbBMUR\S:]N1KZ?F7A>AdRgD;d0g3lmkV)"
        R"(V7cO:f@>bO3Vn:mOo3VUdZHbgDJG79lbG;XFRm`?`Cb2bBPIJTYba9^G0bbMhbA>7IlmVk=X:D?HhQAf:7fcO8BJdlXng[F_DEe4R@US^\nN3[1`V)"
        R"(P8@0Qc51[JA4ONVUO6X5jSfF\`B>hien2OJY6l;=OO:UXKgP\WkgY\3mOfH0U?blMJ5P3QZJOnBZTK=h>5JDDX1=@@BI_3`n]OE1E3DF`Fb_aholN)"
        R"(=8OfFoLV2TjoI7JLkC:?T]aRJm]e[74H<@c:Oj0?O049V>EdcGYH`ennSaS=]W^:VAb01>n:QYT`?<lDWXCQf8LW>eMNI7fJIQcjT3\6[eODde:]2)"
        R"(JKUH[oD2i9N^?TiY1hoVWc9F78<009AfkaiGea@lJkT=ePGcmR4G2kjhKDKZ3UU;F83l>In?cQlZVj6dV<5K\?W]5Ll5OcF3lo>mDU`B7Km_iBXN9)"
        R"(APLA85o]be0;InmOXi=Q<J\bW]EJ1Ij>0_fm8Skd@4R0hNSZ\?@iCY24VoODi<5G4CK6L1OZ8V<51WhIR_VSh=NCZO<7F`W^[\CWWIbW0kR8l7_cm)"
        R"(m2JeIX@V<bA=PaXjo:cI2E59UWkKef9RY3S7j<l`j9<e@cbJa7:B<K]c9S\Z?cfB08iF[SU7JLY>:<EljFKGWL\YBEUQZT_<VK;7JLL2]BHiLQeD>)"
        R"(^?1kd<DC:_=QnkA@c^_?LY728lg?iJZL^7<U@A?lNI>BX`@`Y[Pk09aHMjWNkd^A7lWc2317bk2:Gk3BLB:So=DK\dB]nkN1jhaCQe1l5S5lCMNC8)"
        R"([]GBd\9UeWh<Ye5NSD2e00FH61JiMWUF_673E]enfREDAY?Fkg]b?]jg@_HMKh<PoVkh3iMidKm1I=XBT<7GbiI1\WNLj?J9;5T_TBKj?8ebGFCZJ)"
        R"(@PI;NaVajlUg=l[B4KNG=ioGGikYdj]L<eKlJbGKd80TldVYBCcdSmeLTofe:dNCMf[8aWWOkSNUoB]aO\9L4Sic:)";
}

}  // namespace linmed
