"""Which machine is a process on?"""

from __future__ import annotations

from fact_samples import Process, facts_of, net


def test_machines_are_the_hosts_of_the_prefix_in_natural_order() -> None:
    log = [line for host in ("n10", "n2") for line in Process(host, 5).say("cudaDriverVersion 12080")]
    assert facts_of(log).machines == ("n2", "n10")


def test_a_label_host_counts_before_the_prefix_host() -> None:
    log = [
        "[pod/train-0/main] localhost:7:7 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>",
        "[pod/train-1/main] localhost:7:7 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>",
    ]
    assert facts_of(log).machines == ("train-0", "train-1")


def test_a_label_that_names_the_same_machine_leaves_the_name_of_the_prefix() -> None:
    log = [f"[pod/train-{i}/main] gpu{i}:7:7 [0] NCCL INFO cudaDriverVersion 12080" for i in range(2)]
    assert facts_of(log).machines == ("gpu0", "gpu1")


def test_task_numbers_are_no_hosts() -> None:
    srun = [f"{task}: n1:{10 + task}:{10 + task} [{task}] NCCL INFO cudaDriverVersion 12080" for task in range(2)]
    mpirun = [f"[1,{task}]<stdout>:n2:{10 + task}:10 [{task}] NCCL INFO cudaDriverVersion 12080" for task in range(2)]
    assert facts_of(srun, mpirun).machines == ("n1", "n2")


def test_addresses_of_one_interface_tell_machines_of_one_name_apart() -> None:
    log = [*Process("node", 10, address="10.0.0.1").bootstrap(), *Process("node", 20, address="10.0.0.2").bootstrap()]
    assert facts_of(log).machines == ("node@10.0.0.1", "node@10.0.0.2")


def test_hosts_named_by_their_address_are_cut_at_the_dot_and_told_apart() -> None:
    log = [*Process("10", 8, address="10.0.0.5").bootstrap(), *Process("10", 9, address="10.0.0.6").bootstrap()]
    assert facts_of(log).machines == ("10@10.0.0.5", "10@10.0.0.6")


def test_an_interface_further_down_the_list_can_tell_them_apart() -> None:
    log = [
        line
        for pid, last in ((10, 1), (20, 2))
        for line in Process("node", pid).say(f"NET/Socket : Using [0]docker0:172.17.0.1<0> [1]ens5:10.0.0.{last}<0>")
    ]
    assert facts_of(log).machines == ("node@10.0.0.1", "node@10.0.0.2")


def test_addresses_that_are_equal_everywhere_or_blanked_out_tell_nothing() -> None:
    texts = [
        ("Bootstrap : Using lo:127.0.0.1<0>", "Bootstrap : Using lo:127.0.1.1<0>"),
        ("Bootstrap : Using docker0:172.17.0.1<0>", "Bootstrap : Using docker0:172.18.0.1<0>"),
        ("Bootstrap : Using eth0:10.x.x.1<0>", "Bootstrap : Using eth0:10.x.x.2<0>"),
    ]
    for one, other in texts:
        assert facts_of([*Process("node", 1).say(one), *Process("node", 2).say(other)]).machines == ("node",)


def test_two_interfaces_of_one_machine_are_one_machine() -> None:
    log = [
        *Process("node", 1).say("Bootstrap : Using eth0:10.0.0.1<0>"),
        *Process("node", 2).say("Bootstrap : Using ib0:10.1.0.1<0>"),
    ]
    assert facts_of(log).machines == ("node",)


def test_hosts_that_look_alike_are_not_joined() -> None:
    log = [
        *Process("n1", 1, address="10.0.0.1").bootstrap(),
        *Process("n1-ib", 2, address="10.0.0.1").bootstrap(),
    ]
    assert facts_of(log).machines == ("n1", "n1-ib")


def test_one_machine_in_several_inputs_is_one_machine() -> None:
    logs = [Process("n1", pid, address="10.0.0.1").bootstrap() for pid in (1, 2)]
    assert facts_of(*logs).machines == ("n1",)


def test_a_process_without_address_is_on_none_of_several_machines_of_its_name() -> None:
    log = [
        *Process("node", 10, address="10.0.0.1").bootstrap(),
        *Process("node", 20, address="10.0.0.2").bootstrap(),
        *Process("node", 30).say("cudaDriverVersion 12080"),
    ]
    assert facts_of(log).machines == ("node@10.0.0.1", "node@10.0.0.2")


def test_a_process_without_address_is_on_the_only_machine_of_its_input() -> None:
    first = Process("node", 10, address="10.0.0.1").bootstrap()
    second = Process("node", 20, address="10.0.0.2").bootstrap() + Process("node", 30).say(
        "NVLS multicast support is available on dev 0"
    )
    facts = facts_of(first, second)
    assert [note.machines for note in facts.notes("nvls_support")] == [("node@10.0.0.2",)]


def test_a_lost_label_does_not_make_two_processes() -> None:
    """Output without a line's end stands before the record: the label is lost."""
    process = Process("n1", 10, label="0: ")
    log = process.version("2.26.2") + process.whole("a1", 0, 1, "commId 0xaa")
    log[-1] = "0: loading shard 3 ... n1:10:710 [0] NCCL INFO" + log[-1].partition("NCCL INFO")[2]
    (communicator,) = facts_of(log).communicators
    assert (communicator.ranks, communicator.completed, communicator.ambiguous) == ((0,), 1, False)


def test_a_word_before_a_record_is_no_machine() -> None:
    process = Process("n1", 10)
    log = (
        process.version("2.26.2")
        + process.whole("a1", 0, 1, "commId 0xaa")
        + ["warning: n1:10:710 [0] NCCL INFO CC Off"]
    )
    log += [f"warning: {line}" for line in process.say("Using network IB")]
    assert facts_of(log).machines == ("n1",)


def test_containers_with_equal_pids_stay_apart_by_their_labels() -> None:
    logs = [
        Process("localhost", 7, label=f"[1,{task}]<stdout>:").whole(f"a{task}", task, 2, "commId 0xaa")
        for task in range(2)
    ]
    (communicator,) = facts_of([line for log in logs for line in log]).communicators
    assert communicator.ranks == (0, 1)


def _masked(nnodes: int | None, edge: bool) -> list[str]:
    """Two machines of two GPUs whose poster wrote `node` for both and blanked the addresses."""
    log = []
    for rank in range(4):
        process = Process("node", 100 + rank, rank % 2)
        log += process.version("2.26.2") + process.init("START", "a1", rank, 4, "commId 0xaa")
        if nnodes:
            log += process.nodes("a1", rank, 4, nnodes, 4 // nnodes)
        if edge:
            peer = (rank + 2) % 4
            log += process.say(net(0, rank, peer, "send", 0, (rank % 2, rank % 2)))
    return log


def test_more_ranks_than_the_node_has_on_equal_gpus_are_several_machines() -> None:
    facts = facts_of(_masked(2, edge=False))
    assert facts.machines == ("node@1", "node@2")
    assert facts.world and facts.world.crossing.answer.value == "yes"


def test_equal_gpus_joined_over_a_network_are_on_several_machines() -> None:
    facts = facts_of(_masked(None, edge=True))
    assert facts.machines == ("node@1", "node@2")
    assert {group.scope for group in facts.net_edges()} == {"between"}


def test_equal_gpus_alone_do_not_tell_machines_apart() -> None:
    assert facts_of(_masked(None, edge=False)).machines == ("node",)


def test_a_gpu_used_twice_is_no_second_machine() -> None:
    warn = "node:100:800 [0] init.cc:871 NCCL WARN Duplicate GPU detected : rank 0 and rank 2 both on CUDA device 10000"
    assert facts_of([*_masked(None, edge=True), warn]).machines == ("node",)


def test_a_label_names_a_machine_only_where_nccl_does() -> None:
    log = [
        "n1: n1:7:7 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
        "n1: Traceback (most recent call last):",
        "job-7: Traceback (most recent call last):",
    ]
    facts = facts_of(log)
    assert facts.machines == ("n1",)
    assert [seen.machines for seen in facts.notes("python_traceback")] == [("n1",)]
