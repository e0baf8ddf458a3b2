# A second, tiny job that looks at the first one, should it fail: also where the node died, or
# Slurm killed the script before any footer could run. Use it in place of `sbatch job.sbatch`.
job=$(sbatch --parsable "$@") || exit
job=${job%%;*}
sbatch --parsable --dependency="@DEPENDENCY@:$job" --kill-on-invalid-dep=yes \
  --job-name="slurmdoctor-$job" --output="slurmdoctor-$job.out" \
  --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=1G --time=00:10:00 \
  --wrap="timeout 300 @COMMAND@ diagnose --job $job@IFFAILED@" >/dev/null ||
  echo "slurmdoctor: no watching job could be sent; job $job runs without one" >&2
echo "$job"
