# Prints what nccl-tests prints: the same sizes, the same definition of bus bandwidth, the same check of values.
import os, socket, sys, time, torch, torch.distributed as dist

name, begin, end = sys.argv[1:4]
unit = lambda text: int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]] if text[-1] in "KMG" else int(text)
warmup, turns = 5, 20
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
rank, ranks = dist.get_rank(), dist.get_world_size()
devices = [None] * ranks
dist.all_gather_object(devices, f"on {socket.gethostname()} device {torch.cuda.current_device()} {torch.cuda.get_device_name()}")
say = lambda text: rank == 0 and print(text, flush=True)
for at, device in enumerate(devices):
    say(f"#  Rank {at} Group  0 {device}")
say("# size count type redop root time algbw busbw #wrong")

def run(count):
    """Returns the operation on `count` elements per process and in total, its result, and what each element must be."""
    part = max(count // ranks, 1)
    if name == "all_reduce":
        data = torch.zeros(count, device="cuda")
        def turn():
            data.fill_(1.0) if turn.checks else None
            dist.all_reduce(data)
        return turn, lambda: data, lambda: torch.full_like(data, float(ranks))
    if name == "all_gather":
        own, all_ = torch.full((part,), float(rank), device="cuda"), torch.zeros(part * ranks, device="cuda")
        return lambda: dist.all_gather_into_tensor(all_, own), lambda: all_, lambda: torch.arange(ranks, device="cuda", dtype=torch.float).repeat_interleave(part)
    if name == "reduce_scatter":
        all_, own = torch.ones(part * ranks, device="cuda"), torch.zeros(part, device="cuda")
        return lambda: dist.reduce_scatter_tensor(own, all_), lambda: own, lambda: torch.full_like(own, float(ranks))
    if name == "alltoall":
        out, into = torch.full((part * ranks,), float(rank), device="cuda"), torch.zeros(part * ranks, device="cuda")
        return lambda: dist.all_to_all_single(into, out), lambda: into, lambda: torch.arange(ranks, device="cuda", dtype=torch.float).repeat_interleave(part)
    if name == "sendrecv":
        out, into = torch.full((count,), float(rank), device="cuda"), torch.zeros(count, device="cuda")
        def turn():
            ends = [dist.P2POp(dist.isend, out, (rank + 1) % ranks), dist.P2POp(dist.irecv, into, (rank - 1) % ranks)]
            [work.wait() for work in dist.batch_isend_irecv(ends)]
        return turn, lambda: into, lambda: torch.full_like(into, float((rank - 1) % ranks))
    sys.exit(f"forge: unknown collective {name}")

factor = {"all_reduce": 2 * (ranks - 1) / ranks, "sendrecv": 1.0}.get(name, (ranks - 1) / ranks)
size, bad = unit(begin), 0
while size <= unit(end):
    turn, result, expected = run(size // 4)
    turn.checks = True
    turn()
    wrong = (result() != expected()).sum()
    turn.checks = False
    dist.all_reduce(wrong)
    for at in range(warmup + turns):
        if at == warmup:
            torch.cuda.synchronize()
            dist.barrier()
            began = time.time()
        turn()
    torch.cuda.synchronize()
    took = torch.tensor((time.time() - began) / turns, device="cuda")
    dist.all_reduce(took, dist.ReduceOp.MAX)
    speed, bad = size / float(took) / 1e9, bad + int(wrong)
    say(f"{size} {size // 4} float sum -1 {float(took) * 1e6:.2f} {speed:.2f} {speed * factor:.2f} {int(wrong)}")
    del turn, result, expected
    torch.cuda.empty_cache()
    size *= 2
say(f"# Out of bounds values : {bad} {'OK' if bad == 0 else 'FAILED'}")
dist.destroy_process_group()
