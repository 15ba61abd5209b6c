/* Which instructions this processor and its system have: 2, 3 or 4, as in x86-64-v2, -v3, -v4; 0 on other processors. */
#if defined(__x86_64__)
#include <cpuid.h>

static int instruction_level(void) {
    unsigned a, b, c, d, b7, state, high;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 2;
    const unsigned fma = 1u << 12, movbe = 1u << 22, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    if ((c & (fma | movbe | osxsave | avx | f16c)) != (fma | movbe | osxsave | avx | f16c)) return 2;
    __asm__("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
    if ((state & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b7, &c, &d)) return 2;
    const unsigned bmi1 = 1u << 3, avx2 = 1u << 5, bmi2 = 1u << 8;
    if ((b7 & (bmi1 | avx2 | bmi2)) != (bmi1 | avx2 | bmi2)) return 2;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & 1u << 5)) return 2; /* lzcnt */
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* f, dq, cd, bw, vl */
    return (state & 0xe6) == 0xe6 && (b7 & avx512) == avx512 ? 4 : 3;
}
#else
static int instruction_level(void) { return 0; }
#endif
