# --- slurmdoctor: says at the job's end why it failed ---------------------------------------
# Stands below the #SBATCH lines and above everything else. It never changes the job: the exit
# status stays what it is, and where slurmdoctor is missing, fails or takes longer than @TIMEOUT@ s,
# nothing happens. SLURMDOCTOR_HOOK=off turns it off.
slurmdoctor_footer() {
  (
    { set +e +u +x +v; } 2>/dev/null
    [ -z "${BASH_VERSION:-}" ] || trap - ERR DEBUG RETURN
    [ "${SLURMDOCTOR_HOOK:-on}" != off ] || exit 0
    # only the batch script itself: not a step's tasks, not a run by hand
    [ -n "${SLURM_JOB_ID:-}" ] && [ -z "${SLURM_STEP_ID:-}" ] || exit 0
    tool=${SLURMDOCTOR:-slurmdoctor}
    command -v "$tool" >/dev/null 2>&1 || tool=@COMMAND@
    command -v "$tool" >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1 || exit 0
    command timeout -k 2 "${SLURMDOCTOR_TIMEOUT:-@TIMEOUT@}" \
      env -u PYTHONPATH -u PYTHONHOME -u PYTHONSTARTUP \
      "$tool" footer --status "$1" --shell "$$" --script "$0" --when "${SLURMDOCTOR_WHEN:-@WHEN@}" </dev/null 2>/dev/null |
      command timeout -k 1 "$((${SLURMDOCTOR_TIMEOUT:-@TIMEOUT@} + 4))" head -c 16384 >&2
  ) 2>&2 || :
  return "$1"
}
slurmdoctor_arm() { # an EXIT trap set before this one runs after it, and sees the same $?
  eval "set -- $(trap -p EXIT 2>/dev/null)"
  trap "slurmdoctor_footer \"\$?\" && :${3:+
$3}" EXIT
}
slurmdoctor_arm
# --- end of slurmdoctor ------------------------------------------------------------------------
