"""What jobs print all the time, and the words that their complaints are made of: the engine looks for what is rare in such text.

Only speed depends on it: whatever stands here, the same lines are found.
"""

TEXT = rb"""
  12: [2026-11-21 09:24:45.123000] iteration     1200/  500000 | consumed samples:      1228800 | elapsed time per iteration (ms): 1912.4 | learning rate: 1.500000E-04 | global batch size:  1024 | lm loss: 2.403155E+00 | loss scale: 1.0 | grad norm: 0.343 | number of skipped iterations:   0 | number of nan iterations:   0 | throughput per GPU (TFLOP/s/GPU): 412.7 |
[Rank 17] (after 1200 iterations) memory (MB) | allocated: 42017.5 | max allocated: 70140.9 | reserved: 75532.0 | max reserved: 75532.0
INFO:megatron.core.timers:forward-compute: (617.12, 657.77) backward-compute: (1201.40, 1233.10) optimizer: (12.33, 14.10) all-grads-sync: (0.02, 0.03)
2026-11-21 09:24:45,871 - INFO - Epoch 3 step 1200: train_loss=2.4031 val_loss=2.5112 accuracy=0.4121 lr=0.00015 tokens/s=128731 gpu memory=71.2GB grad_norm=0.88
{'loss': 1.2301, 'grad_norm': 0.731, 'learning_rate': 1.9e-05, 'epoch': 1.25, 'num_tokens': 123456.0, 'mean_token_accuracy': 0.713}
Epoch 2:  45%|####5     | 451/1000 [12:31<15:10,  1.66s/it, v_num=3, train_loss=1.230, validation loss=1.411]
Validation sanity check: 100%|##########| 2/2 [00:01<00:00,  1.53it/s]
dataloader worker 3: shard 004211.bin offset 812331231 prefetched in 31 ms; building dataset index from /data/tokens/train_text_document
saving checkpoint at iteration 1000 to /ckpt/run/iter_0001000 in torch_dist format, successfully saved checkpoint, loading checkpoint from /ckpt/run, resuming from
> building train, validation, and test datasets ... > number of parameters on (tensor, pipeline) model parallel rank (3, 1): 1234567890
[default3]:[rank3]: number of workers: 8, world size: 64, tensor parallel size: 8, pipeline parallel size: 2, data parallel size: 4
initializing model parallel, setting random seeds, compiling and loading fused kernels, using the following arguments for this process group
cn0071:20575:21575 [7] NCCL INFO Channel 03/0 : 12[4] -> 13[5] via P2P/CUMEM/read comm 0x55d0 rank 12 nranks 64 cudaDev 4 busId ab000 commId 0x7f3a - Init COMPLETE
cn0071:20575:21575 [7] NCCL INFO Connected all rings, Connected all trees, threadThresholds 8/8/64 | 512/8/64 | 512, 24 coll channels, NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.1.2.3<0>
/usr/local/lib/python3.11/dist-packages/torch/utils/checkpoint.py:85: UserWarning: torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly
/opt/venv/lib/python3.11/site-packages/transformers/modeling_utils.py:1250: FutureWarning: this argument is deprecated and will be removed in a future version. Please use the other one instead.
  warnings.warn(message, category, stacklevel=2)
WARNING:megatron.core.rerun: loss spike, validation of result, value within tolerance, will be ignored
W1121 09:24:45.871000 140211 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded
torch.distributed.elastic.multiprocessing.api torch.distributed.launcher torch.distributed.distributed_c10d torch/distributed/elastic/agent/server/api.py
[rank3]:[E1121 09:34:45.003 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank 3] ProcessGroupNCCL
#3 torch.distributed.all_reduce from /usr/local/lib/python3.11/dist-packages/torch/distributed/distributed_c10d.py:2504
Exception raised from checkTimeout at /opt/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:632
frame #4: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >) + 0x282 (0x7f0000010004 in /usr/local/lib/python3.11/dist-packages/torch/lib/libtorch_cuda.so)
frame #5: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in /opt/conda/lib/libc10.so) c10d::ProcessGroupNCCL::watchdogHandler() + 0x1c8 clone + 0x44 (in /lib/x86_64-linux-gnu/libc.so.6)
  File "/workspace/train/pretrain.py", line 213, in <module>
    main()
  File "/usr/local/lib/python3.11/dist-packages/megatron/training/training.py", line 1355, in train_step
    losses = forward_backward(self, inputs, **kwargs); return self._call_impl(*args, **kwargs); return forward_call(*args, **kwargs)
  File "/usr/local/lib/python3.11/dist-packages/torch/nn/modules/module.py", line 1553, in _wrapped_call_impl
Connection connecting connected operation operator collective work group watchdog timeout Timeout timed out Read request requested
Error: error: errors failed: failed to failure fail fetch Fetching not found, could not, Could not, cannot, is not, was not, unable to
detected terminated sequence expected received tensor enqueued queue complete completed successfully microbatch micro batch size of
KeyError MemoryError TypeError ValueError RuntimeError NCCL WARN WARNING: Trying trying Retrying retrying skipping attempt shape file
"""
