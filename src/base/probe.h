/* SPDX-License-Identifier: MIT */
/*
 * Probes for tracers (USDT): a place in the code that bpftrace or perf can stop at, docs/probes.md.
 *
 * Each is one NOP, and a note in the ELF file that says where its arguments are. So an argument is
 * something that is at hand anyway: it is computed although nobody traces. Names and arguments are
 * an interface: arguments are only appended. Without <sys/sdt.h>, or with -Dprobes=disabled, there
 * are none.
 */
#ifndef LK__BASE_PROBE_H
#define LK__BASE_PROBE_H

#ifdef LK__PROBES
#include <sys/sdt.h>
#ifdef __clang__ /* its macros are GNU's, and are expanded where ours stand */
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
#define lk__probe2(name, a, b) DTRACE_PROBE2(lockkeeper, name, a, b)
#define lk__probe3(name, a, b, c) DTRACE_PROBE3(lockkeeper, name, a, b, c)
#define lk__probe4(name, a, b, c, d) DTRACE_PROBE4(lockkeeper, name, a, b, c, d)
#define lk__probe5(name, a, b, c, d, e) DTRACE_PROBE5(lockkeeper, name, a, b, c, d, e)
#else
#define lk__probe2(name, a, b) ((void)(a), (void)(b))
#define lk__probe3(name, a, b, c) (lk__probe2(name, a, b), (void)(c))
#define lk__probe4(name, a, b, c, d) (lk__probe3(name, a, b, c), (void)(d))
#define lk__probe5(name, a, b, c, d, e) (lk__probe4(name, a, b, c, d), (void)(e))
#endif

#endif
