# --- slurmdoctor: says at the job's end why it failed ---------------------------------------
# Stands below the #SBATCH lines and above everything else. It never changes the job: the exit
# status stays what it is, and where slurmdoctor is missing, fails or takes longer than @TIMEOUT@ s,
# nothing happens. SLURMDOCTOR_HOOK=off turns it off.
slurmdoctor_footer() {
  # without the footer the script would be gone by now: signals that come late must not find it
  if [ -n "${BASH_VERSION:-}" ]; then
    # a fork is long enough to lose the verdict in: where nothing runs after it, no trap is kept for later
    [ "${2:-}" = last ] || slurmdoctor_traps=$(trap -p TERM INT HUP USR1 USR2 XCPU 2>/dev/null)
    trap '' TERM INT HUP USR1 USR2 XCPU
  fi
  (
    { set +e +u +x +v; } 2>/dev/null
    exec 9>&2 2>/dev/null
    trap '' TERM INT HUP USR1 USR2 XCPU
    [ -z "${BASH_VERSION:-}" ] || trap - ERR DEBUG RETURN
    [ "${SLURMDOCTOR_HOOK:-on}" != off ] || exit 0
    # only the batch script itself: not a step's tasks, not a run by hand
    [ -n "${SLURM_JOB_ID:-}" ] && [ -z "${SLURM_STEP_ID:-}" ] || exit 0
    tool=${SLURMDOCTOR:-slurmdoctor}
    command -v "$tool" >/dev/null || tool=@COMMAND@
    command -v "$tool" >/dev/null && command -v timeout >/dev/null || exit 0
    seconds=${SLURMDOCTOR_TIMEOUT:-@TIMEOUT@}
    command timeout -s KILL "$seconds" \
      env -u PYTHONPATH -u PYTHONHOME -u PYTHONSTARTUP \
      "$tool" footer --status "$1" --shell "$$" --script "$0" --when "${SLURMDOCTOR_WHEN:-@WHEN@}" </dev/null 9>&- |
      command timeout -s KILL "$((seconds + 2))" head -c 16384 >&9
  ) || :
  if [ -n "${BASH_VERSION:-}" ] && [ "${2:-}" != last ]; then
    trap - TERM INT HUP USR1 USR2 XCPU
    eval "$slurmdoctor_traps"
  fi
  return "$1"
}
slurmdoctor_arm() { # an EXIT trap set before this one runs after it, and sees the same $?
  eval "set -- $(trap -p EXIT 2>/dev/null)"
  if [ -z "${3:-}" ]; then
    trap 'slurmdoctor_footer "$?" last' EXIT
  else
    trap "slurmdoctor_footer \"\$?\" && :
$3" EXIT
  fi
}
slurmdoctor_arm
# --- end of slurmdoctor ------------------------------------------------------------------------
