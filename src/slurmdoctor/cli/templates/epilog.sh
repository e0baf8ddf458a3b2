#!/bin/bash
# EpilogSlurmctld: for every job that failed, writes slurmdoctor's verdict beside the job's log.
# Runs on the controller, as SlurmUser; the work is done as the job's own user and in the background,
# so no job and no node waits for it. Never fails: a failing EpilogSlurmctld is only noise in slurmctld.log.
export PATH=@PATH@ # slurmctld gives its scripts none
case ${SLURM_JOB_ID:-} in '' | *[!0-9]*) exit 0 ;; esac
[ -n "${SLURM_JOB_USER:-}" ] && [ "$SLURM_JOB_USER" != root ] || exit 0
case "${SLURM_JOB_EXIT_CODE:-0}:${SLURM_JOB_DERIVED_EC:-0}" in 0:0) exit 0 ;; esac
command -v @COMMAND@ >/dev/null 2>&1 || exit 0
if [ "$(id -u)" = 0 ]; then as=(runuser -u "$SLURM_JOB_USER" --); else as=(sudo -n -u "$SLURM_JOB_USER" --); fi
job=$SLURM_JOB_ID
set -m # slurmctld kills what an epilog leaves in its process group: the background gets one of its own
# some seconds later accounting and the last lines of the log are there; the file is opened with the user's rights, so
# that no link in the user's folder can fool us
setsid sh -c 'sleep 5; exec "$@"' epilog timeout -k 5 @TIMEOUT@ "${as[@]}" env -i HOME=/ PATH="$PATH" LANG=C.UTF-8 \
  ${SLURM_CONF:+SLURM_CONF="$SLURM_CONF"} \
  @COMMAND@ diagnose --job "$job" --if-failed --beside-log --time-limit @READING@ </dev/null >/dev/null 2>&1 &
disown
exit 0
