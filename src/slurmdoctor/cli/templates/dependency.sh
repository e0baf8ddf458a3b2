#!/bin/sh
# A second, tiny job that looks at the first one, should it fail: also where the node died, or
# Slurm killed the script before any footer could run. Use it in place of `sbatch job.sbatch`.
answer=$(sbatch --parsable "$@") || exit
job=${answer%%;*}
case $job in
  '' | *[!0-9]*) echo "slurmdoctor: sbatch answered with no job id; the job runs without a watching one" >&2 ;;
  *)
    sbatch --parsable --dependency="@DEPENDENCY@:$job" --kill-on-invalid-dep=yes \
      --job-name="slurmdoctor-$job" --output="slurmdoctor-$job.out" \
      --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=1G --time=00:10:00 \
      --wrap=@WATCH@" --job $job@IFFAILED@" >/dev/null ||
      echo "slurmdoctor: no watching job could be sent; job $job runs without one" >&2
    ;;
esac
printf '%s\n' "$job"
