# SPDX-License-Identifier: Apache-2.0
"""What happens in the midst of transfers. Each event gets the run, and returns False if there was nothing to do."""

import os
import signal
import time

from actors import GONE, NO_MEMORY
from own_namespaces import brokers


def kill(chaos):
    """At any time in the midst of transfers."""
    victim = chaos.one()
    chaos.break_links_of(victim, GONE)
    time.sleep(chaos.chance.choice([0, 0.001, 0.01]))
    victim.kill()


def leave(how):
    """`how`: exit through destructors, without them, or by becoming another program."""
    def event(chaos):
        victim = chaos.one()
        chaos.break_links_of(victim, GONE)
        victim.tell(how)
        victim.dead = True
        victim.was_cut_off = how != "exit"  # Its other threads end wherever they are.
    return event


def fork(how):
    def event(chaos):
        actor = chaos.one()
        if how == "own" and actor.capture and actor.capture.ends_early:
            return False  # The child's NIC could not capture, which is an error.
        actor.tell(f"fork {how}")
        if how == "idle":
            actor.has_idle_child = True
    return event


def fork_with_event(chaos):
    """While an event waits for the parent: the child, which destroys its copy of the CQ, must not take it."""
    good = [link for link in chaos.links if not link.broken and link.ends[0] is not link.ends[1]
            and not link.ends[0].has_idle_child]
    if not good:
        return False
    link, seed = chaos.chance.choice(good), chaos.chance.randrange(1 << 20)
    actor, peer = link.ends
    chaos.settle()
    actor.tell(f"arm {2 * link.number}")
    chaos.settle()
    peer.tell(f"send {2 * link.number + 1} 1 {seed}", link.judge(peer))
    chaos.settle()
    actor.tell(f"fork {chaos.chance.choice(['destroy', 'exit'])}")
    actor.tell("reap")
    actor.tell(f"event {2 * link.number}")
    actor.tell(f"expect {2 * link.number} 1 {seed}", link.judge(actor))


def stop(chaos):
    """For less than its peers have patience."""
    actor = chaos.one()
    os.kill(actor.process.pid, signal.SIGSTOP)
    time.sleep(0.1)
    os.kill(actor.process.pid, signal.SIGCONT)


def starve(chaos):
    chaos.one().tell("starve")


def kill_broker(chaos):
    for broker in brokers():
        os.kill(broker, signal.SIGKILL)


def lose_memory(how):
    """One end of a link loses memory that stays registered."""
    def event(chaos):
        whole = [link for link in chaos.links if not link.broken]
        if not whole:
            return False
        link = chaos.chance.choice(whole)
        end = chaos.chance.randrange(2)
        link.broken = NO_MEMORY
        link.forgets = how == "remap"
        # The actor itself does not touch it any more: only its NIC does, for the peer.
        actor, peer = link.ends[end], link.ends[1 - end]
        actor.tell(f"{how} {2 * link.number + end}")
        chaos.settle()
        peer.tell(f"write {2 * link.number + 1 - end} 4096 5", link.judge(peer))
        chaos.settle()
        for number, one in enumerate(link.ends):
            one.tell(f"close {2 * link.number + number}")
        chaos.links.remove(link)
    return event


EVENTS = {
    "kill": kill,
    "exit": leave("exit"),
    "quick_exit": leave("quick_exit"),
    "exec": leave("exec"),
    "fork_and_exit": fork("exit"),
    "fork_and_quick_exit": fork("_exit"),
    "fork_and_destroy": fork("destroy"),
    "fork_and_exec": fork("exec"),
    "fork_and_open": fork("own"),
    "fork_and_idle": fork("idle"),
    "fork_with_event": fork_with_event,
    "stop": stop,
    "starve": starve,
    "kill_broker": kill_broker,
    "unmap": lose_memory("unmap"),
    "protect": lose_memory("protect"),
    "remap": lose_memory("remap"),
}
