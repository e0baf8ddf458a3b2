#!/bin/sh
# A second, tiny job that looks at the first one, should it fail: also where the node died, or
# Slurm killed the script before any footer could run. Use it in place of `sbatch job.sbatch`.
answer=$(sbatch --parsable "$@") || exit
job=${answer%%;*}
watch() {
  sbatch --parsable --dependency="@DEPENDENCY@:$job" --kill-on-invalid-dep=yes \
    --job-name="slurmdoctor-$job" --output="slurmdoctor-$job.out" \
    --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=1G --time=00:10:00 "$@" \
    --wrap=@WATCH@" --job $job@IFFAILED@" >/dev/null
}
case $job in
  '' | *[!0-9]*) echo "slurmdoctor: sbatch answered with no job id; the job runs without a watching one" >&2 ;;
  *)
    # in the job's own partition and account; where these take no such job, in the usual ones
    place=$(squeue -h -j "$job" -o '--partition=%P --account=%a' 2>/dev/null | sed 's/ --account=(null)$//;q')
    # shellcheck disable=SC2086
    { set -f; [ -n "$place" ] && watch $place 2>/dev/null; } || watch ||
      echo "slurmdoctor: no watching job could be sent; job $job runs without one" >&2
    ;;
esac
printf '%s\n' "$job"
