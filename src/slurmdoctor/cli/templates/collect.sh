# What `slurmdoctor collect` runs once on each node of a job, as the job's own user: it reads, and ends and changes nothing.
# $1: the job's id; $2: the folder, which the nodes share. Each command has a time limit, and lets go of a process when it is reached.
cd "$2" || exit 1
umask 077
node=${SLURMD_NODENAME:-$(hostname -s)}
export DEBUGINFOD_URLS=

limited() { timeout -s INT -k 10 "$@" </dev/null; }
of() { tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | sed -n "s/^$2=//p" | head -n 1; }  # a variable of a process
rank_of() {
  for name in RANK OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID; do
    rank=$(of "$1" $name)
    [ -n "$rank" ] && echo "$rank" && return
  done
}

# The job's processes: each rank's first one, and what it started (data loaders, compilers).
ranks= helpers=
for dir in /proc/[0-9]*; do
  pid=${dir#/proc/}
  [ -O "$dir/environ" ] && [ "$(of "$pid" SLURM_JOB_ID)" = "$1" ] || continue
  [ "$(of "$pid" SLURM_STEP_ID)" = "$SLURM_STEP_ID" ] && continue  # our own
  other=$(of "$pid" SLURMD_NODENAME)
  [ "${other:-$node}" = "$node" ] || continue  # of several slurmd on one host
  case $(cat "$dir/comm") in
  bash | sh | dash | zsh | srun | mpirun | mpiexec* | orte* | prte* | hydra* | slurm* | tee | tail | cat | sleep | timeout) continue ;;
  esac
  case $(tr '\0' ' ' <"$dir/cmdline") in
  *torchrun* | *torch.distributed.run* | *torch.distributed.launch* | *accelerate\ launch* | *deepspeed*launch* | *horovodrun* | *raylet*) continue ;;
  esac
  parent=$(sed -n 's/^PPid:[[:space:]]*//p' "$dir/status")
  rank=$(rank_of "$pid")
  if [ "$(readlink "$dir/exe")" = "$(readlink "/proc/$parent/exe")" ] && [ "$rank" = "$(rank_of "$parent")" ]; then
    helpers="$helpers $pid"
  elif [ -n "$rank" ]; then
    ranks="$ranks $pid:$rank"
  fi
done

# PyTorch's flight recorder writes its dump where it is asked for one; meanwhile the stacks are read.
for one in $ranks; do
  pipe=$(of "${one%:*}" TORCH_NCCL_DEBUG_INFO_PIPE_FILE)
  if [ -n "$pipe" ] && [ -p "$pipe${one#*:}.pipe" ]; then
    asked=2
    limited 5 sh -c 'echo 1 >"$1"' sh "$pipe${one#*:}.pipe" || echo "$node: rank ${one#*:} does not read $pipe${one#*:}.pipe"
  fi
done

stacks() {
  spy=$(PATH="$PATH:$(of "$1" PATH)" command -v py-spy)
  [ -n "$spy" ] && limited 60 "$spy" dump --pid "$1" 2>/dev/null && return
  command -v gdb >/dev/null && limited 120 gdb -nx -batch -p "$1" -ex 'thread apply all bt' 2>/dev/null && return
  echo "no stack: neither py-spy nor gdb could read the process"
}
for one in $ranks; do  # at once: gdb reads the symbols of PyTorch for a minute
  pid=${one%:*}
  {
    state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$pid/status")
    echo "slurmdoctor collect: node $node: rank ${one#*:}, pid $pid, state $state, in $(cat "/proc/$pid/wchan" 2>/dev/null)"
    stacks "$pid"
    echo
  } >"stack-$node.$pid" &
done
wait
echo "slurmdoctor collect: job $1 does not go on; read on $node at $(date -u +%FT%TZ)" >"stacks-$node.txt"
for one in $ranks; do
  cat "stack-$node.${one%:*}" >>"stacks-$node.txt"
  rm "stack-$node.${one%:*}"
done
for pid in $helpers; do
  echo "slurmdoctor collect: node $node: helper, pid $pid, of $(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")"
  stacks "$pid"
  echo
done >>"stacks-$node.txt"

sleep ${asked:-0}  # what was asked for may still be written
# Dumps that were written since the process began; those of another job lie in the same place.
for one in $ranks; do
  pid=${one%:*} rank=${one#*:}
  began=$(($(date +%s) - $(ps -o etimes= -p "$pid" || echo 0) - 2))  # both are rounded
  cache=$(of "$pid" XDG_CACHE_HOME)
  cache=${cache:-$(of "$pid" HOME)/.cache}
  for prefix in "$(of "$pid" TORCH_FR_DUMP_TEMP_FILE)" "$(of "$pid" TORCH_NCCL_DEBUG_INFO_TEMP_FILE)" \
    /tmp/nccl_trace_rank_ "$cache/torch/nccl_trace_rank_" "$cache/torch/comm_lib_trace_rank_"; do
    case $prefix in
    '') continue ;;
    /*) file=/proc/$pid/root$prefix$rank ;;
    *) file=/proc/$pid/cwd/$prefix$rank ;;
    esac
    [ -f "$file" ] && [ "$(stat -L -c %Y "$file")" -ge "$began" ] || continue
    mkdir -p dumps && limited 60 cp -p "$file" "dumps/${prefix##*/}$rank"
  done
done

(limited 20 dmesg --time-format iso || limited 20 journalctl -k -n 500 -o short-iso --no-pager) 2>/dev/null | tail -n 500 >"$node.dmesg"
[ -s "$node.dmesg" ] || rm -f "$node.dmesg"
if command -v nvidia-smi >/dev/null; then limited 60 nvidia-smi -q >"$node.nvidia-smi" 2>&1; fi
echo "$node: $(echo "$ranks" | wc -w) ranks, $(echo "$helpers" | wc -w) helpers"
