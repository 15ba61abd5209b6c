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
constexpr Index DIMENSIONS = 1111;  // those of all primitive polynomials up to degree 13; see `fill` for more
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
    static constexpr int OF_DEGREE[] = {0, 1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630};  // primitive polynomials
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
        R"(G4AQe25BDbiV;1d8UGmQa1g`E5<^aClAHc=FV:m1_kIVhf>R7bCl3Y4HJ>aD\N:Zm?E\9eS[9<ROf@20lbBMUR\S:]N1KZ?F7A>AdRgD;d0g3lmk)"
        R"(VV7cO:f@>bO3Vn:mOo3VUdZHbgDJG79lbG;XFRm`?`Cb2bBPIJTYba9^G0bbMhbA>7IlmVk=X:D?HhQAf:7fcO8BJdlXng[F_DEe4R@US^\nN3[1)"
        R"(`VP8@0Qc51[JA4ONVUO6X5jSfF\`B>hien2OJY6l;=OO:UXKgP\WkgY\3mOfH0U?blMJ5P3QZJOnBZTK=h>5JDDX1=@@BI_3`n]OE1E3DF`Fb_ah)"
        R"(olN=8OfFoLV2TjoI7JLkC:?T]aRJm]e[74H<@c:Oj0?O049V>EdcGYH`ennSaS=]W^:VAb01>n:QYT`?<lDWXCQf8LW>eMNI7fJIQcjT3\6[eODd)"
        R"(e:]2JKUH[oD2i9N^?TiY1hoVWc9F78<009AfkaiGea@lJkT=ePGcmR4G2kjhKDKZ3UU;F83l>In?cQlZVj6dV<5K\?W]5Ll5OcF3lo>mDU`B7Km_)"
        R"(iBXN9APLA85o]be0;InmOXi=Q<J\bW]EJ1Ij>0_fm8Skd@4R0hNSZ\?@iCY24VoODi<5G4CK6L1OZ8V<51WhIR_VSh=NCZO<7F`W^[\CWWIbW0kR)"
        R"(8l7_cmm2JeIX@V<bA=PaXjo:cI2E59UWkKef9RY3S7j<l`j9<e@cbJa7:B<K]c9S\Z?cfB08iF[SU7JLY>:<EljFKGWL\YBEUQZT_<VK;7JLL2]B)"
        R"(HiLQeD>^?1kd<DC:_=QnkA@c^_?LY728lg?iJZL^7<U@A?lNI>BX`@`Y[Pk09aHMjWNkd^A7lWc2317bk2:Gk3BLB:So=DK\dB]nkN1jhaCQe1l5)"
        R"(S5lCMNC8[]GBd\9UeWh<Ye5NSD2e00FH61JiMWUF_673E]enfREDAY?Fkg]b?]jg@_HMKh<PoVkh3iMidKm1I=XBT<7GbiI1\WNLj?J9;5T_TBKj)"
        R"(?8ebGFCZJ@PI;NaVajlUg=l[B4KNG=ioGGikYdj]L<eKlJbGKd80TldVYBCcdSmeLTofe:dNCMf[8aWWOkSNUoB]aO\9L4Sic:0k=6_7>Q@MFPgH)"
        R"(]BMWh=6E0oP\UWUJT;;P^@<3CfR<k840n`eNQmf<6\A8QK[IcA;3ZMh`U;`V1aQ?Vb7AgNE`m`H5]<S71j0S8;b3Hehl\PB8e0liE^GGk9fIW`oR)"
        R"(jmmC516a6Ld_01`2cHh@IXA7KWQ9SkISSaG3d`I?E2IKD27LXHj_N^?fJM>d7Gi>]lnND7X=cNIQa@KeSOAXQ\0ej^6b1E7Ukd;[l4IV12=FgEoP)"
        R"(T0\B2g62LUVBDNGFR=Y8fg9Gb6IBk?UOm438Ne@kR5cRRS]Z6>JA46BiQH]<\^=04Z8I^Mb:jTn_EJL^1RYRk0V;C^j]aOC]OeUOBX<b3`SUoBma)"
        R"(QLEN\OSP17[oO31;HhaP_3UaU8YB^J^_YRB@TkWH=_[AVUR3L\hVo\YFVKH<kSCRcDJF`G43faZ;Xb8?Z;]l4a2@`D\A3KORZ3^YVgj:2@RUN_j6)"
        R"(DbO68PJRGDZFUB9d;QT=PRX4K5:@[i4`Yh255i@<Ma?]^fQT2;5gIiUY?3CNm6k=;Z8O]9VTJUik:EZlD<0e?bIG``ObC:P`hUG^[@5XaG@a\Pe4)"
        R"(Y83ikdLXF\iDcP\a;:CE`V:E`7CgJbS1E56oSUZ7Sga\R]ZKP6YA8RFAA1inaf[BF]`e_J<<\kVnFd=Q_bOU5BX[X>QlfT>>\g5Semk7f49KlJgJ)"
        R"(Hd4^liEOe_eXJOgGo8`Je0b4lGF<AHfg37a2m[lA<ohl`LjC\?IVIbFZbOc5o?SDKl_5J5L5XAAYjHOjG]]dDBFP\ZHKG`J2fBeETXA2N=LVIjgd)"
        R"(\SQbV8jf^l7VdoKKdo4cX_ji[_m??f[hVZDJh^Iahin^5CEL;:[<b3P:TC>`20:X0B]@:7CJ@Zd[lnU[[f8Z9Y?afhf58I9PQAYmfkdCNWfai:nC)"
        R"(N7=14YXNQ<J_lOU8@NAf@^WMM0CaeYo\i[KfT7^lOh^mE>:[363<EZ0OF3Ykoc=NJPZ@VT;4W7JI`a\[<9E9L4?Xa3CVZC?oYE4A<MYReEG?<2U1)"
        R"(=Q`lje[6S9J;=[P1>US<3>Gh8cI25B;\NI1o8ZG4I_jkobg3fYUl475LoQ:?OCBG52<>hS5c9aOZaD4]67TU=m82=842Gobh?YML82hOSYm;bINT)"
        R"(g_9cTUC>?XljMCJ>YUOD_cP^B=Ei7LR`<<H5WDOYl\HjFoYCDJi<?C4`^k9KE_YWI1[c0e2DebGEj\aQR6:oP:_B_eA[X94:QGBU=YN3Xk=Q8Dn])"
        R"(d4JYZm22Q1PJK^86hDUnnA=j4:dL8E8XZ28@@Eg0fgQEaXXiZU0U<4[L88ClEEf<_emEZbm^7fFhJf\_]1ifbSTe5eA\3De1mc62oE4TXa@TJE::)"
        R"(0W97T0f]4]e6JcB;GmfF>Nm=EXmeT;_2Lko:KVkeM=6U=i<=eCk>E4IXRSl:4N5>k_aXF[7?_K0lS49ZZYegjKZEgTHXM2<mSP=\VU6N7f0T]^h^)"
        R"(?e84Ob2JAXLm\MROoZ1j6h_nDan0lQ>Dm;Hbh9A3QMoL>lL\khgO@^LBmAV?5JTMBg@H9O2a<LlA=lCUkD]DcMHe>mbMgcFdnYLeai1>26<I`^?m)"
        R"(lG2;HJ1?c7ONZ2>^V72O5@[[jj\1oLg>YeDKFb[l4]ldHSi8_Q=fjSJY4bU[K6VCMmH<Il`UII`cnITe<7`@F\Kk<dF:8A?g<_9W1=ZTGFS`gVmf)"
        R"(a4HQGk:L6>Go9IUOI<^chCb@n:G8<oHcd<_K=KnV;e[C<gKQSgeA[kV`kW_fFkjMf5A\m]X]m48L^;O44Oj>`E]@<UiO\P7Ya\>R7ic?b[8Ub1DT)"
        R"(jHJiC6nD?0KDodl[m2GNGEB8VNIj;K:LZP:FoCd]2;gcH6]_YBS^ZPehRiOV`l4hmem8mKUXBcc]?6:o?la>U;R@:Yo>Ai:LXY<LY0_Xc3ea;Cgl)"
        R"(LJ@@LW[j;<i2MA?HOQe1ifKHE1d7\>JiYI7iiD\c4H_>ERQ2mMb?@3^:NYm?PW216eQniZcfRf>c^U1QKcKGQB4dckcS@mTJ]1Sje^B?BdHUV4SA)"
        R"(<a;9f9B4PTEWo?5a<>5IW[oeOjJ`1l[RJUWQho`8TC>H1^W68=i0;Y`M]PfRiOkIQVU?CH<]Z[nmblGTBT=6M=?iQ0C1mKI7H^eW@<aVJH9_S@k4)"
        R"(Ze69aX3H3bX4?@Si:n[jj6I]ihmb:X:A1aSXGX`gOPdCa>?C0IWmc90H71gb92b_<ah\\7b:o44EHAUG0nl2D^RJ0g5iGaU<Z5HQn?83bg3GEY[\)"
        R"(lR@BCEV7PRBNHLYhCmI7J_@TL<k?C844F@KRo@6e19]bDoH_dF>SoLZmb4PagHmWYFlhBTTHh@5`dPkej7CU4;aoPKP3@T[`dBmW^H>;6dL<C^9Z)"
        R"(GiAWj1gglNZVID6ZCOkem^e^Y9eo02kkne56GOc123E8cLFla[[9Z_QPVKWCClFGM[?ABU:YD1[LRO;^XVd@9J\S0g7iIDGFIX@A1^igZ>:<]g`D)"
        R"(nHTCBN:9\7@NM`N?;=JUd@C]lBVHRf9CCD:OI\o5ImSl7ZdDO8O=i^EK67eQ7@R2m5UX?QY:69G2]M08o5:IeUb]XFb7\JA:^Z[UWI0ie<Q]FG5[)"
        R"(dXDYg;TVd^;@HQ1\m7VKacjEdfcR\jFK3L11KXAO`6YO4_<ITAX_2Kka<6g7ZbdGb0J;G@BddHIFBBB>O:Z55TB=8i;`ga[]:AC_6jHS:a?3MPI[)"
        R"(R[_V7O6T0SQgPa]dO]Zam16\c4jTWBnf\X>Ok;4MYfY6U6CR_]jj^iBHW?0n5:^:RgZVA`j;e_C<_e[\IZP?bSBIf=keJ4D5?amFH]mmDJOQoQ=5)"
        R"(:fC0Ok4o5Ed_]?dA[@bOfIhc9cV0CGhDKZ=>=e[OX<BLTHn;j>d^iYI9jSXdJ=kXC;Ra5UM_4:GG[e:m^S__Yc4RW4?mG=B?3a`X;Be:P;=iWTUR)"
        R"(i6CfW5:X<>K5RdjM?YCFF>_ZiTQJl\[Cd;CF`C7G0X5l6;V5Ce^cLDXNAUHcXWSm^AmG0N5_9AZgNl@U^7]2iLDPVn[Na]EoiLn2TmbJHkZ^J??e)"
        R"(\ifcYaQ>o[KXBj=[c6=;jj3EdWWQVCik8GSS<:a7TCmNmbK\8=MQTe@;KOoE]^XN2=_Md=QGUoSF9QWE6L;i_hGQ[Go0KglW\Ue0jE3j2l6ga6bn)"
        R"(^2KS:_A4OLYbeJRM3;Ij6o;Z[MoaB^cH][:_HXh]JcLlc8j?HLkJA^\RPd;XLH:UiCGNcjO>gWe9[W_k4gQNLgb3MU:h]^m;il`Imil>mn;MIDG<)"
        R"(N:C7;PIoc43[h7UYCA`TYiUeoo8Gg];HZgB`YU;MX7i9lBN`kb6m4d2W9F`LL5oC<<d@L8WG3]oYC0mj5oTgE3QgI356H:Tb_SDI7b>YW]@MI>4V)"
        R"(;GYUDo;2a<_P=Kn;`0O\3InIfZDTmPIM:k<;XfL5S=N;n]WWedYnGZ8Qc`Z7d``S;lLPjF2@AjWbM1MTXaeJS@]CAZ0i40jl=3Z6B??bT\Bo0UZE)"
        R"(KdP2ih1f:8LY[?T3iF`f0XR14f;IHC1E;]X924KhA96BGacWcA5^W^@ZXZYAW6=3_R5XbX[8c21lR[Nc]0[kgMDf;bm9>jYe`VYLhAiDY=m1Jeb[)"
        R"(FDcl;`\5=k9o8g_LnF4@4?1EX7jfAGb[[@Q<EX9V<^?Z4C0R?UJ>;Rh=^A84``c069KlY`g24Q:5ejNCnh47Dh9eTD;FLO;iJRk7hjeH=cGH2V7E)"
        R"(\`]KkXk3E[eP4SJ`@7kmKS0;1`cSkFf8oQ^3o08aL8Vi=0PJJJIaj[Co>BEC07Cd2b>`iUOJI;J08lFjdD5?3?4]OY0eRACZfQPZYa?ob0c=oMCg)"
        R"(jQimJ4?g0Q2d>B<MFEPUeB51T3\Jb:?^WHfkg611oaZ1ZhXm@P`C?1TbQ^gk@RT1R:TB1]o5N5`Q11;:SIG1JH@Nc:jLY[ELEM1ESR`>WB<5e1C`)"
        R"(N1RTHSllYn4a^[OQ1TOZK@]nj89PY\T1kk?9N`MNNH@Gj`1A;cCO]_>lngUbi14B3EERHX>JcE962L[F]fo56?5AIm:23TZ\M7b[\5lZ8D256=iX)"
        R"(T3KnoKGRG2oZA9lJ>[PbPBBM28NnRc@Olj8J>4Q25T1ojgi0Y\oZ^c2X8Ej5UQlhNRYBe2=KII^;=M\JH<nl2>Hg@[A_Wa97G=43CO7e\N<T1U?;)"
        R"(>;3GXQh42LA0RRk`>3gSf3Y1>:;c>jFO3>OBTm5LCfQ:aRP30<I1>`j\URj8QS3QRlaneW0O;7]CV3?DU>[0`ia`K>V_32^eiIQkIL>=RNa3J\RW)"
        R"(Cj9j\`G;ih39EL_7:Y?:WhRQm3H7S_>3cSfjKL?<4Xa0I8[`jGZn6DB4o]1^78AMk4D?cK4?3H<QXn5E\B4EN45_\H4E=:5HkEgQ4jX;5DRCE]Wn)"
        R"(Rl]42JQjUMdZaO[WB^4_>o^;j8aU2OFol4:iI;U\d?X\G0co4ANTLQ9e<OmJXo45DiJ@<hXb\X]M2;5UcG76<FFh1\E<=5XoPYnL2inJE8<I5Fih)"
        R"(ZJQi9Cg88_O543NSU=_mJia_`V5HPWHF0@WL_]6Gg5dXZ4cOmW8EQ<9k59fQJOJ<[8;8UDm5OJ_Eik3SZ6Td`26\]F9]HGn\4Io1C6:4\;@X0@6^)"
        R"(ADoE63^0aH6_Wd659NS6AEJQeEFA:0]\>Z6hFNMbmadCkGjf\6Zf^T;7N`g3PV^g6DS^P]JBWiFhKXh6CXN^?^6NB5j[Rn6e`TY>X2^?V`na37>_)"
        R"(PaQX03Bo1`T67lGk@eMi1VAfND:7;D2g0ABQ1<^njA79U:06dKA;MFk1D7>XbOC813HBTk6H7ENIn=M0E8N68:K7[0A`KMg?EAnl6M7WK:I[Q9[V)"
        R"(WgRX`7?^5ADk:Y@1ZTkf7?]TRTOdoJFAWml7FaHm8TgKW2_3`58`R5Ij2W7bfNHe98YSJJQJFCA;PR1?8k1WGX3SUj1WN1B8Be>W8M@UmP\;^D8n)"
        R"(^50?YQbi4\1JN8Lf3UfH89<DEoWX8_a^hQ>[2?]L9C[8J>g;[eW4;HNg@`8];FVHZQZ0EKLlf8aJLkD26j1KYEgo8[4iMZfd2:co]419H_g44m8=)"
        R"([fUIP=9MZLmkVRcmm<MD>9Th=BV0FF8oCRiJ9<E4O<^XEhnFllO9AT?ei`aEj;QjQP9]Ij6n_]An<;XjS9Yf?j7JOFO8_IKU9WnX8::IDJ?bdaa9)"
        R"(_LH:LmFHddnAV4:oV8lX>l3@OiO\;:WDBaMBm]ZRRV4>:BjEcFUC68iB<n@:_dcZ2o3M6iYJVF:l?m3ga[5ZJX5YL:`X>:67iIJoM7FY:_KfP06P)"
        R"(Cn0`KRZ:M;TUbcJP[HAX;a:JPaa`Ofe46f`=h:Kfam[Vb>^@@fGk:eBb>M[Sfg2^Kl3;aMHgYlaHZglN45;_`ZWf3c:A^KbL:;CMa?PcSYo?]0G<)"
        R"(;;7Vo9M?4<VnP2?;BdM5@6i_SoRQbG;W0LUXjfEHU<@eN;aYm=^3B]?3eaRR;Fc7JDgHlAm_?fW;`TLAT1?KL]B^6[;c]bP>=4VE:VX8e;^[A9YK)"
        R"(BT4XZ3a1<NLk`BLCX4VBeK2<L6>NJL60FF@5o8<b?YIPi`MQ[bJ0F<1:5FJEJ^THQjAO<Y8eYk:[\KcEE^U<P4Ve<cRc32Nd9Y<?DUmheYX=3L7L)"
        R"(\<e1[[M5_aaJYo^d<lc6l\JKJ@eCQbk<_:oIk[\nhBJigm<]=@iB`oRSc1^M3=1fJeZFeDWKmL_9=FHEbCVfT_g0i0<=o\_oPM?5LC7i>H=F>_d^)"
        R"(:Mm9hgAUK=XL:3@B?hghXh4N=Gn9oJa3C7SL>9Q=MhX0<;i1S:kSSe=Y3O`GbIg>I69oj=dj?WnL<?]ch[C9>\AkX5oW\JYlJGD>Z:aVYW:4Unmf)"
        R"(EM>c4WGOKaNlF<KgW>P^:>b^OWDfo1h[>P5216;3IWPkJI^>hJ^UOi@F_`Th?e>U[cDcaoUakQ^<i>B^XR72]NL9khcl>JSgbF^P^5H2TS1?Zc6])"
        R"(W`5ahk=n=8?o<bEjnV5Q3G]<@?`fg0^\M42XoYML?Z`[6ibPGOZ^c0S?6k73\E<R1PVC^U?60@e4RJeEFC;S_?\SWP73b:JE69mg?fU^h<BYIZi@)"
        R"(R@h?Zm:Q0U;RLQSia3@CW=P2V[Ha5fbY<@cTldGPHl3ko<6?@MoN0I[@gTN[8^A@n13@[1iaXjR:jH@EX6L04S<EQD7BM@Km5VLGPj3ZGfmN@B;9)"
        R"(@Z79`_7k^GR@aGeoK88jPcR2Yc@`\^6BUl9LiR57j@5[D5aI1UYd]WX2AN<_Sb1gm^DK6gEA36kg5Sb\f^RTaFA<nnTO5NBQR?S?OAk8nl1HdaIg)"
        R"(XI6VAlLX79_4HLVBhNZA=GRJ>:4;0B0dB_A2M5?k0Z>kZZD2aAXnDkKgH5Q0d3jdAGQ;94gh@k@[TPmA]eFUjJG>bXToN4BVRmF@dkjBlJ4S7BmN)"
        R"(m<a2@cGL8MV8BjaCOR>HZ<7C71=BTbMm^F`RQac0?EB3aAc=g]glQWmnJB^7o^8AiVe7\>\OBEJA`@3V_TbD^:PB^Nfe1K^I3\VM?UBcA1[D_i2J)"
        R"(I<XkZB`YUUO;4mYC>i[kBIS3`4WoNP2<C2nBiB0PCYf@NT\Ge0ChH8:VNUOd<WiE9C;TT[_XN2QPDea?ChL7Hg;7Xa6UObGCA0FGa5IieD12=KC?)"
        R"(T<amhV_SBFH6NCh89Dm?k>AQ]=jQCaMSZBEg<[66:V[Ca8ZonAai7787ciCGc7NR<E42m5YmjC5AC58DeViEgK51DCJWIK4<XmbFJ17De`ig^[X:)"
        R"(M?U1m>DE_`>3c^=G7b@_@DLF4WaP2[BHWk=ID_g5Vd6U076Zo7JD1QA<=TaKCC<B5VD:h@b4o4Q5I5?GdD`AiM\hfhM<jg1gDnY>0i\_^EhkaGhD)"
        R"(nlo7X?QY9RR\omDf4V?79kXcG;G0nDcFILP5WD8VUM[BE`[KUUnSh]OAG5DENf`H[6KGeGnidHE_3XiR7:Hi0?Q8REE@3@`7>1AI@2^[EW94A8e>)"
        R"(V[I2k0]EKV4H]oeg3`T[jeE6NjidHET;3IT_iE1bknWYFKdEmAZ0FFRXok5`g@BoO@:Fl0IE`5W3fDLNiAF9k_?eo4n34DLSBFK=k14g8LaUMQ2G)"
        R"(FGEJ@PaE>_2]lPKFaTbH`Q=T^[bVYQF6_i:XFTKQWYncTFKnVYLd]@K6BM\fFbNJT=ZTBOZ>>AoF2@3Q<<>B?;o?A2G01eH\A0YNi`X^;GS1JWbQ)"
        R"(Bgfl::A=GHg=8L>JF]:=K_FGm8D54UM<6gZ_\IG\mAZncBjIcZUP\GO`N<BV50IHMB7bGYZ<0k>YjRFnfJnGS82NWUDa92cZA7HSNhFF\bNG`XXi)"
        R"(@HUSZ?fZJMh5IMVEHBf;6A90;PAHBgFHCO\^`bmGB9hAhOHc8<F?bNg9LNA<PHYmY`VeIJg=Z^6VHdFLkoVN_`aYUXhHXIPEBJ7^D_g_g5ID:n4Q)"
        R"(oUJ;fk[66IGNBe6=5ddhdJj:IH<b?X6je?\^mFAISiRNb[B==@6CoGI5B19PbZ3Ra\NHNIbW@?KA8aM`AdCRIVRR`EJQO;?dGVXIPF5A3:<>RKWa)"
        R"(L[Ic\BX3m]Gi[2l^`IK`T]JbYK^OecEcIR9^eGDjW5P\0eeITDi0O5DJ[5H>>6JonJnnG@811iIc<JSJ^OcK2MKen1^DJL1]Yn`GBncaKkGJP26c)"
        R"(1_miei?::KJ:6]ibK;@PJbUdMJ6?kR`oglo_Cc;RJjgB3PPYD5`33g]J[X0UTB6>oKa;QcJON7kTa275?R2ajJ[FSaJ=T0?991Y4KnnRDNMkfKYo)"
        R"(?D7KRh9ejIgFZUG50CKBR44j4B38GOeYEK^[DX01i31L2i\JKg<1K`4HGDOK@;aK<j175QRfDXhj_hKYFSd6USZBdbFfnKbi\W482@2;ROW3L2eC)"
        R"(9Wh\N\^7B49LOWkLf5TM\a`Ha:LD>16bjPUDLGR:DL3:i6m8GXNNQ2>TL;eDIXg1jURkTZWLV53_OaNbCJ1M?]LQQJFX`G?=EK;g^LJ@Ah0n^kM6)"
        R"(`Lf`L:gT>HkXC;P=bMeLVi_?hc6TLVVOH7MoL\gRZBFN@o<g8M@>i:N6a6eiH_A;Mn?IDWSSEdJF1a>M1BjTQU?kd5:IIEM9H>VkgEXPJ3F3IMa^)"
        R"(9ce0aG_8_XeLMj3[4ACZo<=CU?_M=]MT4LmUGbAGFmM2`D4W3iZ1I<BMnMb[_IKVG3D5[OO2NGBGGlUXefB;P<4N5=<f^lSUY4`hW8N26IVl2Kgn)"
        R"(U2F@;NeRKCUKB=VLh[SON0SWP^PHTkfn5CPNc0JNdKZ1dBK[fUNm\V[;3KM;ioNFVN6cK5Xm3<Q3B>T\Nh:JaA2oiinK:H_NR8l5hEVkA8Y:BbNM)"
        R"(Kj3=OSdEgOHAdNCBj4OiajJacKL:OV:5N7@0FPWfNlBO^T;j_AD?^Y0h:GO7Ffc9FWFbCg>2HOhZQHSa9HMWCQhWON\DcnWRa@dBV;^Ol;:JOXCV)"
        R"(>PiKRcOJDGUVmmMV76E;fOS7D`?@hLOY[D_jO1cE1JMY`HZgP^oO_1UAg^56A3jJo3PJOJfJkN9oY]Y8:P>l`mOVh@fiR3f<Pm4olXD2`F13J5GP)"
        R"(5^]5SGVKK2D=mTPbUWJ^^K]HB>8ZWP_B>DCl_Hig3:\cPG2gZ>A<f2mI:<lP=lN6;:^n7?2ckoP2:=<XOGC?]abJ8Q1j`d=P;M44^HC@Q=abZFUa)"
        R"(Eo20^HJQ4QdFBN[G<KJ>NOQDo@0\aaNM[e8jPQ0H7V^`ZDoNIa3YQX3]Fc=nPN1N_k\Q;_C?P]U?7;Q<^bQ`K0HJko<a1l4HgQ<b5\GR7n5f1Ck2)"
        R"(Ri6deNjG3\\nQO7R5i@NNC`EF?d1@JRT7f::fnmn93>DSRW9mQU;gT6X;LRVR4UmGU`KccL7>n_Rk65hLfTLClJHEaR;6FiQH?>H?^^ghR9CU`X@)"
        R"(Q<2M1N7mR7GNA]_Y^[DS]JASUL<dH4<kH]5f<DS[7\A[;[0^gfT:KS=loV8XI6\:HchRS12?^Ccj]EamgLTS]UR9iMSC\h>3h]SkR^e\ZO8]LH_g)"
        R"(`SnU:nd7XLm]h;YeS3TbjZhIkcIYGffSj7TWGOGK6YccPiSPoId1[3K8i[\2oS7[kMiX[MXFI=G4TNTk\e?6g@SDQY7T\VTUTB^Cg?d64>TMBOko)"
        R"(KU[n]3fPCTHMi5TXQ^hHkUMLTX=<nJ68_DjLBPUTEVl96R<;b5liZYTJKZFES5dO27B3\TM693e:ed3b[;YbThT=Z=b7Rk8:Oe0U^T5Y=ER^L5IZ)"
        R"(F9UNJE2BTcJ4B]nf<Uc_FjPBJORdeWZ?UAY5m=HKkoWl:6DU>e?bcOI\L^^?JKUT6nRkM^aOchn?MU?\loM6b:Nlk\eQUV_4oA`P^=7H?[[UQKOg)"
        R"(=9LIm5]1D]U`3D;K8LAP?LITcUY_LI]Qbj<4:mP3VcI[NC;ShYGL\0:VjA:J?68<Oec3`GVN;[^Hlkc?c3SmXVcaY@l@SVmB4;[^V=lmE1>IRnh_)"
        R"(C2jVRI:FM]Pk]R\\C;WR2ncSC\6O`[Uf=WP0eNGnE?fJi[nEW16d^7T1H?E[DQLWY4?em;E@:97^gPW>56Z]L@bZNd7SSW9I=4<51NI@1INZW^R;)"
        R"(k:U=404SCbaWo:DOkod;@Ac]^bWGD`?i\B4GX_bBkWMY04Fll:OaFIGmW4UR2WR19LC@OB4X37BFDg`6c<FgX=X:an=F9QQhKm_]CX9ibE=NC\A9)"
        R"(9HlPXYkASOj3l5T;<3VXh^\Z<Mff4<NDE_X_m\2jO7HK1=g3dX^Q6=d^Knfe_53kX0WdUnNjSB;c@ZmXKCAPFA[O=C8DN3Y<9^>>]b8FHY[i9YF<)"
        R"(EV7JB2iCSJ[<YJ3P``im?nFae0BY]Bl7VP:NbV<h`NYFUaZ5db@kmhM@TYJbW3CI>97`EJo]YEAmXi?dc8ei1VcYN^CLmcg:G\MM_lY85TE9fPeI)"
        R"(mHl36Z5V<IW0RDoQII@?Zg2NFoJ1D8FO6?BZQ@PA\O1;YKS^1HZm:QT\bcGKTl>_KZ2oV9Ud5k`AQjlRZ2[RO[?]j8Ti^QWZ;X5iMQ=NaMD=1^Zh)"
        R"(HG@h1UmMI2SFfZ0]IgDNa_c7j[TiZA?^B:6`4?eAl3oZfeGa_LTLP7jFP>[_K39hToFM3FGI@[Tn0n0>N[e:G`8L[Q6>^FXTQZn_@YV[hDb3j0[X)"
        R"(TFRmEZ[kGjeBUNFmFfc3\[PQL8AL6`H08d9a[lW1if@@W7[<4>d[9=o9aRc@[f9XJg[0W9<e2?N\?PAJ0\K1`k15:TnSoIf5\LH3mD=Va1P19V?\)"
        R"(@9^ULSJ_XZkXWB\VUQD\4]YhYd0_G\neXdl0InHD:[bM\;]lUBVBA3MfI4T\=:V;[=id__6nFX\FEZRXBCMPe3b:]\EG@4e@?9E9eYai\5T7CcW<)"
        R"(hVADc4j\]OU@f8;oD:aO]8]1W`afoH?fLi1f=]k8^mfJ>HeQ1TC>]aY_hFD4FQHA]YF]VhF_eh@bR@>cRU]ILZG20:b\D^jRY]?iJ]>JTSo=]6>Z)"
        R"(]CBMac[;^3HO^Fa]J2XI>`0b>=Z7>g]1MJeO@Fm\?n]D2^_:Z0eG0eam^Yh7^CgSBm6A7ja0:_=^nC3l=>W8e?>RZ@^Ok>Kjm<0Sge?6F^Jmi5<Z)"
        R"(?kl<`S7L^ni`U2fC4IPa1OP^^fAC4fM`5Od[`S^>[8W<Lfhfill`Y^X8Hj8]955G0MVh^P=G=^PkPemm[fk^OgX6AWHHS9>fl5_INhb^C0NdnamH)"
        R"(:_jllk`=\6gPGkk<_6ATJM<o60;GaTA_5`SI?>TfHPLLfR_B95;?LV7?^288W_HgQfH:UXX3gaXX_FFkJ\gTnk4B@A[_mkk1U:@0a>Ykl^_dJh:F)"
        R"(MG?\SVYm`_8XF]=91YC[=C9i_Lh7O0GFd^ZgfV1`kWZjFCHUEV66L2`4WcE0]TM[PmD3;`O6=oJWD_7H\dR>`Z\HFcdE6Y>6\hC`0PA>m_R26VJV)"
        R"(RI`W_=eYoNUd@AMLU`H0A41@<R81^6l\`7U;kX9H[[=T4\d`0Je84FlcUcC:Vh`Zmon2M6FL>J4IAabNKgXmUgL6Bl4Haj[hLMD:a`OUN0MaeY0H)"
        R"(2cHD\l<V:TacIU0;hOS4jPB\Wa5[icFIXdc`n`e`aL1Akj`D9@AkaRiaLNU@0JVhil]Xolam8FhH@1FYM>o@0bZM[i9Dk?SAoO?3b9;O?4lPDHfc)"
        R"(VY5b5iLe3Y8e^O0E=9b22k0O@GN]E_cnHbc]aLUfL`V6@YmWbaKFGBYdeUZadTcbD9:Nj:X5^D<j@fbe@N?]DEjB]_7J1cl^51H8\2QAZTi2cPk`)"
        R"(0m0;cC4`kh;c@DW=`lQSO2W5k@cI:@Y\<@cFoZj:Ccgc;H_[b[>U8HaFcN=\F\T\U];Xc0UcULD`?AZQokd8>VcfG<<eTGId>\S6Yc[1JchN_G7F)"
        R"(kR9gc4ULU>i6=hd]@Hkcja;LZf4XXDAi8nc2c?4A1incEN7U3dW94GgmC8`1X7[DdF@HF2I_a4]=YbGdT>>3bf:geXD[@Nd:P0a5KeDV<EW_XdYQ)"
        R"(BPb1GYdh]Pe^dK4Okg9?bKLRJn`df;b5XC39]EL[Pcd@O?62eTJg^5`=idVXf\Hf1330if=jdk:g2JYW5AFfVP4eRAPV\^fNi^ClcLeiFe869A1F)"
        R"(`g`[Oe?2A4;hG``TA:QVe@Q5X7c3g<8PZkYeUiMM8l?F6@ePAZea1kXQFSgY@XXh_e>_HF307W;ai>dbe2R0K8SeU_L^=ndeCYgOLU1DEa5ifmeI)"
        R"(2mCNSM<9n6858fYbIK@PNX1DFo[Ef4Q>cOCDd@GjCcFfU2EiY<8fkGk6lJfODhU6@Zi;3@Q\Of:^Q`?hPBEn\E1Yf_JY<B5R?ZXR3h\fl_`QhVgm)"
        R"(2FE@^afj8`Bd64=dh8OkbfaoHi``8AcQLm:gfj2id4=7ch7WFUhf9h=a@=]K_d]HMkf^aP7]afFB>=of5gh^E`fYVk8R>VO<gI5WT5IF9b`mZXBg)"
        R"(\5DbaPm7Y\FolDgc?CjRP_LZ[X@3Kg0_g:GRgAlYMdQMg=OX`jYQT:[RQmXgV^e8daHa@IlHAcg^EV?^j47j:YRPigWfLKj299TSPBTogj]^XYCj)"
        R"(<@0_nS6hIg=3@P]Lg@\Jc9h=`]]2]Md1\FFQ:hRENKac:jHCfk;?hZ>F^DUREb4oBRAh>;@:C_1FA5j8dBh<Ka7k^<MkXHEDMh0PHl_2U;MRPCZW)"
        R"(hd[cfI]UGR6:<9^hRcA>P]ZQ^2BY_fhmGj:kU4l?K3gB1icM9E:^^G@LmTU7iZO7P[6OmKg]Y8>iKL0]Q;44KZ\b]Ci[n1KJW?oQ@fYQEi9>Dk`F)"
        R"(Im[NDPJLie;>X00bjGO6EhSio0[5GXib;L>>9di;HOOL>_af@RP1mi@BlYSf=C2TUZMniaT40O7>Q_7CI41jeQRie1dE5l:hY;j7?l>L48gm7^Yc)"
        R"(=j5IXLg=<Kk`F^V@jiI?XYM8mjkc]`Fj4AbR6_hN:>S1SIjNV9V5I;2:bVh^Jj>6268AljNg26MPjVT`JH>JAYafARVj0ID47VACkH^k1bjd[gXX)"
        R"(nE>4LG^bdjb7]Q]T6096YWfnjcWL\WSH8W2Dd^0k[4[0@I`:D?OgE:k53FNNnOPkOR:mHk6h9_X_GoV4o=GKkBfNIEA=FXOE@9QkCR5f?NVBXZ8M)"
        R"(mXk50P]abnSIQ9IB]k7]C`imEf@gAM6ck:<nofG1`dVE\CekLBF^YMVkcB`5Nlk7NT^USP=8:6m^2l=V:eZKMn^;NSd4lB1k=WILLJU><b7lVO0i)"
        R"(:BOSB]@ob=l:;h<SdASfRm4>El4al@5E>Mi<6U[Ol5ZOUMOe<4Ynb1PlXkFUG]a^Cn6FJYlcNRE5AZ3e=[3OblgigcD8dZ0jK_TdlZciWFF\NXoh)"
        R"(NJ5mHY:6Jn3L@M^_3AmbNn]o63<j1]O^NmZkWgnEKb[2HWBRmFRU4V0<Y\dO<J[m8f8d:eUVMYZTX^m6KH_P961gMSFQ`mn`j\of]DI@Vgalm_Nk)"
        R"(jo5:mj_?dL6nGi<:7dj:B85]4<nQ5\1lICkAIE5i?nZT;51nfSD4aG^BnAOfYJ6fCU]fmOKnTJUn\NeJ:k:i8NnZY0MgNDQC]0BcQnYA>@fC5`?Z)"
        R"(4IWRnAUFM272Mm?@ELTn=X7FjcbZAH90[Xn?D6CE0aQ8d4i1[n<E_88cOMLj1Sd`nW<FYjSmZYh4T51oRCl:`]R\U1JPN4o1>?JcO6McDRA`8ooh)"
        R"(A?e\A97f^nYEo<Z?2f8Gm<T]<8Johfa7eP:5JZb2=ao>Aj6LgY:YjB:<ko9M8`j`Z9b@c3Inol9H8]C]<IZEG<)";
}

}  // namespace linmed
