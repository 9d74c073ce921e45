#!/usr/bin/env bash
# What the shared library shows and what it asks for.
. tests/packaging/support.sh
need nm
unpack
library=$(echo "$prefix"/lib/liblockstep.so.*)
[ "$(readlink "$prefix/lib/liblockstep.so")" = "$(basename "$library")" ] || fail "liblockstep.so is no link to $library"
[ "$(readelf -d "$library" | grep -c "SONAME.*\[$(basename "$library")\]")" = 1 ] || fail "the soname is not the file's name"

# Nothing is left for the application to bring.
missing=$(ldd -r "$library" 2>&1 | grep -E 'undefined symbol|not found' || true)
[ -z "$missing" ] || fail "it lacks: $(head -5 <<<"$missing")"

# Nothing but lockstep's own names, so that it meets no other copy of what it was built from.
nm -DC --defined-only "$library" | sed -E 's/^[0-9a-f]* *[A-Za-z] //' >"$scratch/shown"
foreign=$(grep -vE '^((typeinfo|typeinfo name|vtable|VTT|guard variable|construction vtable|TLS (init|wrapper) function) for |(non-virtual|virtual) thunk to )?lockstep(::|_isa_built_for$)' "$scratch/shown" || true)
[ -z "$foreign" ] || fail "it shows: $(head -5 <<<"$foreign")"
# Exceptions are caught by their typeinfo, Module and Dataset derived from by their vtable.
for name in 'typeinfo for lockstep::CommError' 'vtable for lockstep::Module' 'typeinfo for lockstep::Dataset' \
  lockstep_isa_built_for 'lockstep::set_log_sink(' 'lockstep::make_process_group(' 'lockstep::version()'; do
  grep -qF "$name" "$scratch/shown" || fail "it does not show $name"
done

# It looks at the processor when it is loaded.
[ "$(nm -C "$library" | grep -c 'warn_of_an_older_processor')" -gt 0 ] || fail "nothing looks at the processor"

# It does not end the process and leaves signals alone. Each exception is here with its reason; a new one has to be as well.
nm -D --undefined-only "$library" | sed -E 's/^ *[A-Za-z] //; s/@.*//' | LC_ALL=C sort -u >"$scratch/asked"
LC_ALL=C sort >"$scratch/allowed" <<'END'
_exit
kill
raise
sigaction
signal
sigprocmask
END
# _exit, signal, sigprocmask: in a child between fork and exec (distributed/comm/child_process.cc)
# kill: the children of launch() (distributed/comm/launcher.cc)
# sigaction: launch(), which is a program's main loop and puts them back (distributed/comm/launch_signals.h)
# raise: a failpoint that LOCKSTEP_FAILPOINT names (base/failpoint.cc)
grep -xE '_?_?exit|_Exit|quick_exit|abort|atexit|at_quick_exit|kill|tgkill|killpg|raise|signal|bsd_signal|sigset|sigaction|sigprocmask|siginterrupt|signalfd|__assert_fail|pthread_kill|pthread_exit' \
  "$scratch/asked" >"$scratch/grave" || true
differing=$(LC_ALL=C comm -3 "$scratch/grave" "$scratch/allowed")
[ -z "$differing" ] || fail "of what ends a process or touches signals it asks for (left) or no longer asks for (right): $differing"
# std::terminate, too, ends a process; the compiler calls it by itself at the border of noexcept.
# Words go to the log sink: launch() alone writes to std::cerr, the sink that is there at first to stderr.
! grep -qxE '_ZSt4cout|_ZSt4clog|stdout|puts|printf|__printf_chk|putchar|perror' "$scratch/asked" || fail "it prints"
echo "PASSED: $(wc -l <"$scratch/shown") names"
