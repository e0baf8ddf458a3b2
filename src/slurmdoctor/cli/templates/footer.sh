# --- slurmdoctor: says at the job's end why it failed ---------------------------------------
# For bash, zsh and sh. Stands below the #SBATCH lines and above everything else. It never changes
# the job: the exit status stays what it is, and where slurmdoctor is missing, fails or takes longer
# than @TIMEOUT@ s, nothing happens. SLURMDOCTOR_HOOK=off turns it off.
slurmdoctor_status=$?
slurmdoctor_quiet() { # for subshells: settings, traps and signals of the script end here
  { set +e +u +x +v; } 2>/dev/null
  trap '' TERM INT HUP USR1 USR2 XCPU
  if [ -n "${BASH_VERSION:-}" ]; then trap - ERR DEBUG RETURN; fi
  if [ -n "${ZSH_VERSION:-}" ]; then trap - ZERR DEBUG; fi
  # only the batch script itself: not a step's tasks, not a run by hand
  [ "${SLURMDOCTOR_HOOK:-on}" != off ] && [ -n "${SLURM_JOB_ID:-}" ] && [ -z "${SLURM_STEP_ID:-}" ]
}
slurmdoctor_run() { # SECONDS BYTES OPTION...: slurmdoctor's words, in this time, and no more of them
  seconds=$1 bytes=$2
  shift 2
  tool=${SLURMDOCTOR:-slurmdoctor}
  case $tool in -* | *=*) tool=@COMMAND@ ;; esac
  command -v "$tool" >/dev/null || tool=@COMMAND@
  command -v "$tool" >/dev/null && command -v timeout >/dev/null || return 0
  command timeout -s KILL "$seconds" \
    env -u PYTHONPATH -u PYTHONHOME -u PYTHONSTARTUP \
    "$tool" footer "$@" --shell "$$" --script="$slurmdoctor_script" </dev/null 9>&- |
    command timeout -s KILL "$((seconds + 2))" head -c "$bytes"
}
slurmdoctor_note() { # how the logs stand now, where an earlier run may have written to them
  slurmdoctor_quiet && exec 2>/dev/null || return 0
  if [ ! -s "/proc/$$/fd/1" ] && [ ! -s "/proc/$$/fd/2" ] && [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then
    case ${SLURM_OPEN_MODE:-} in
      a*) ;;
      *) [ -f "$slurmdoctor_script" ] && grep -q -e 'open-mod[e]' -- "$slurmdoctor_script" || return 0 ;;
    esac
  fi
  noted=$(slurmdoctor_run 5 65536 --note)
  [ -n "$noted" ] || noted=$(command timeout -s KILL 5 stat -L -c %d:%i:%s "/proc/$$/fd/1" "/proc/$$/fd/2")
  printf '%s\n' "$noted"
}
slurmdoctor_footer() {
  # without the footer the script would be gone by now: signals that come late must not find it
  if [ -n "${BASH_VERSION:-}" ]; then
    # a fork is long enough to lose the verdict in: where nothing runs after it, no trap is kept for later
    [ "${2:-}" = last ] || slurmdoctor_traps=$(trap -p TERM INT HUP USR1 USR2 XCPU 2>/dev/null)
    trap '' TERM INT HUP USR1 USR2 XCPU
  fi
  (
    slurmdoctor_quiet || exit 0
    # where it can be read: in the log, should the script have closed its errors or thrown them away
    if [ ! -e /proc/self/fd ] || { [ -e /proc/self/fd/2 ] && [ ! /proc/self/fd/2 -ef /dev/null ]; }; then
      exec 9>&2
    elif [ -f "${slurmdoctor_log:-}" ]; then
      exec 9>>"$slurmdoctor_log"
    else
      exit 0
    fi
    exec 2>/dev/null
    case ${SLURMDOCTOR_TIMEOUT:-} in # what is no number of seconds counts for nothing
      [1-9] | [1-9][0-9] | [1-9][0-9][0-9]) limit=$SLURMDOCTOR_TIMEOUT ;;
      *) limit=@TIMEOUT@ ;;
    esac
    case ${SLURMDOCTOR_WHEN:-} in failed | always) when=$SLURMDOCTOR_WHEN ;; *) when=@WHEN@ ;; esac
    slurmdoctor_run "$limit" 16384 --status "$1" --when "$when" --before="${slurmdoctor_before:-}" --time-limit "$limit" >&9
  ) || :
  if [ -n "${BASH_VERSION:-}" ] && [ "${2:-}" != last ]; then
    trap - TERM INT HUP USR1 USR2 XCPU
    eval "$slurmdoctor_traps"
  fi
  return "$1"
}
slurmdoctor_arm() { # [trap -- OWN EXIT]: an EXIT trap set before this one runs after it, and sees the same $?
  slurmdoctor_log=$(readlink "/proc/$$/fd/2") || :
  slurmdoctor_before=
  [ -n "$slurmdoctor_late" ] || slurmdoctor_before=$(slurmdoctor_note) || :
  case ${3:-} in
    '' | -) slurmdoctor_exit='slurmdoctor_footer "$?" last' ;;
    *) slurmdoctor_exit="slurmdoctor_footer \"\$?\" && :
$3" ;;
  esac
}
slurmdoctor_script=${ZSH_ARGZERO:-$0}
slurmdoctor_exit=
slurmdoctor_late= # the status of a script at whose end this stands: what is above it has run, and keeps its status
if [ "$slurmdoctor_status" != 0 ] && grep -v '^[[:space:]]*$' "$slurmdoctor_script" 2>/dev/null |
  tail -n 1 | grep -q '^# --- end of slurmdoctor -'; then
  slurmdoctor_late=$slurmdoctor_status
fi
if [ -n "${BASH_VERSION:-}" ]; then
  slurmdoctor_own=$(trap -p EXIT 2>/dev/null)
  case $slurmdoctor_own in # a DEBUG trap that speaks here, too, makes it unreadable: then there is no footer
    '' | "trap -- "*) eval "slurmdoctor_arm $slurmdoctor_own" ;;
  esac
elif slurmdoctor_file=$(mktemp "${TMPDIR:-/tmp}/slurmdoctor.XXXXXXXX" 2>/dev/null); then
  # what a DEBUG trap or TRAPEXIT of zsh says stands around the name: nothing but a new file of this form is written to
  slurmdoctor_file=${slurmdoctor_file##*/slurmdoctor.}
  slurmdoctor_file=${TMPDIR:-/tmp}/slurmdoctor.${slurmdoctor_file%"${slurmdoctor_file#????????}"}
fi
if [ -n "${BASH_VERSION:-}" ] || [ ! -O "${slurmdoctor_file:-}" ] || [ -s "$slurmdoctor_file" ]; then
  : # no other shell, or no file
elif trap >|"$slurmdoctor_file"; then
  # other shells show their traps neither to functions nor to subshells, and each in an order of its own;
  # what a DEBUG trap of zsh says stands in every substitution
  slurmdoctor_own=
  slurmdoctor_seen() { if [ "${3:-}" = EXIT ]; then slurmdoctor_own=$2; fi; }
  alias trap=slurmdoctor_seen
  . "$slurmdoctor_file"
  unalias trap
  rm -f "$slurmdoctor_file"
  slurmdoctor_arm trap -- "$slurmdoctor_own" EXIT
fi
if [ -n "$slurmdoctor_exit" ]; then trap "$slurmdoctor_exit" EXIT; fi # not in a function: zsh would run it at the function's end
if [ -n "$slurmdoctor_late" ]; then (exit "$slurmdoctor_late") && :; fi
# --- end of slurmdoctor ------------------------------------------------------------------------
