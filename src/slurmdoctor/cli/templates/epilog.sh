#!/bin/bash
# EpilogSlurmctld: for every job that failed, writes slurmdoctor's verdict beside the job's log.
# Runs on the controller, as SlurmUser; the work is done as the job's own user and in the background,
# so no job and no node waits for it. Never fails: a failing EpilogSlurmctld is only noise in slurmctld.log.
export PATH=@PATH@ # slurmctld gives its scripts none
job=${1:-${SLURM_JOB_ID:-}} user=${2:-${SLURM_JOB_USER:-}} conf=${SLURM_CONF:-@CONF@}
case $job in '' | *[!0-9]*) exit 0 ;; esac
[ "$#" = 2 ] || case "${SLURM_JOB_EXIT_CODE:-0}:${SLURM_JOB_DERIVED_EC:-0}" in 0:0) exit 0 ;; esac
command -v @COMMAND@ >/dev/null 2>&1 || exit 0
# where SlurmUser is not root, sudo may start this script as root, and nothing else: see docs/hook.md
[ "$(id -u)" = 0 ] || exec sudo -n "$0" "$job" "$user" </dev/null >/dev/null 2>&1
uid=$(id -u -- "$user" 2>/dev/null) gid=$(id -g -- "$user" 2>/dev/null) || exit 0
case $uid in '' | 0 | *[!0-9]*) exit 0 ;; esac
set -m # slurmctld kills what an epilog leaves in its process group: the background gets one of its own
# some seconds later accounting and the last lines of the log are there; the file is opened with the user's rights, so
# that no link in the user's folder can fool us
cd / && setsid sh -c 'sleep 5; exec "$@"' epilog timeout -k 5 @TIMEOUT@ \
  setpriv --reuid="$uid" --regid="$gid" --init-groups --inh-caps=-all --no-new-privs \
  env -i HOME=/ PATH="$PATH" LANG=C.UTF-8 ${conf:+SLURM_CONF="$conf"} \
  SLURM_JOB_ID="$job" SLURM_JOB_STDOUT="${SLURM_JOB_STDOUT:-}" \
  @COMMAND@ diagnose --job "$job" --if-failed --beside-log --time-limit @READING@ </dev/null >/dev/null 2>&1 &
disown
exit 0
