#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that misbehave, and others that must not notice:  chaos.py BIN_DIR SEED[..SEED] [options]

A handful of processes (chaos_actor: plain verbs) share one address, are connected with each other, transfer and verify. In
their midst, by seed, some fork, exec, exit through destructors, are killed, stop, run out of descriptors, take their memory
away, and the broker is killed. Some capture: into one file, on a disk that is full, beyond a limit, for a reader who leaves. The
judge looks at the survivors: each answers every command in time; what it transfers with
another survivor arrives, whole; with one that has gone it ends in an error that says so; what it destroys, it destroys
without an error; no byte beside its registered memory changes; it ends with status 0. In the end no process is left, no
broker, and the address is free.

  --steps N      how long a run is (default 30)
  --only A,B     of the events and kinds of captures, these
  --without A,B  of them, not these
  --wire W       UROCE_WIRE of the processes: udp (default), shm, or mixed: of each at random
  --keep-going   after a seed that fails, too
  --verbose      every command and answer

Everything happens in namespaces of its own. The same seed gives the same commands; the times are the machine's.
Exit status: 0, 1, or 77 = skipped.
"""

import argparse
import pathlib
import random
import selectors
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
# pylint: disable=wrong-import-position
import captures
import events
from actors import ADDRESS, PATIENCE, Actor, Failure, Link, nothing_is_left
from own_namespaces import enter_or_skip

ACTORS = 5
LINKS = 6


def chosen(options, table):
    """The part of a table that is asked for, in the table's order, so that a seed means the same each time."""
    only = options.only.split(",") if options.only else table
    without = options.without.split(",") if options.without else []
    return {name: what for name, what in table.items() if name in only and name not in without}


class Chaos:
    def __init__(self, options, seed):
        self.bin = options.bin
        self.verbose = options.verbose
        self.chance = random.Random(seed)
        self.wires = {"mixed": ["udp", "shm"]}.get(options.wire, [options.wire])
        self.seed = seed
        self.actors, self.links, self.buried = [], [], []
        self.next_actor = self.next_link = 0
        self.events = chosen(options, events.EVENTS)
        self.capture_kinds = chosen(options, captures.KINDS)
        self.tally = {}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="uroce-chaos-"))

    def trace(self, text):
        if self.verbose:
            print(f"{time.monotonic():.3f} {text}", flush=True)

    # What actors do.

    def new_actor(self):
        environment = {"UROCE_ADDR": ADDRESS, "UROCE_ENGINE": self.chance.choice(["auto", "auto", "socket"])}
        if self.chance.random() < 0.2:
            environment["UROCE_FAULTS"] = "loss=1%"
        # Another generator: the commands of a seed are the same over each wire.
        environment["UROCE_WIRE"] = random.Random(f"{self.seed} {self.next_actor}").choice(self.wires)
        name = f"actor {self.next_actor}"
        self.next_actor += 1
        capture = None
        if self.capture_kinds and self.chance.random() < 0.5:
            kind = self.chance.choice(sorted(self.capture_kinds))
            capture = self.capture_kinds[kind](self.folder, name.replace(" ", "-"))
            environment["UROCE_PCAP"] = capture.setting
            self.tally[kind] = self.tally.get(kind, 0) + 1
            if kind == "file_limit" and environment["UROCE_WIRE"] == "shm":
                environment["UROCE_WIRE"] = "auto"  # A ring is larger than that: by UDP then.
        actor = Actor(self, name, environment, capture)
        self.actors.append(actor)
        actor.tell("open")

    def new_link(self, a, b):
        link = Link(self.next_link, a, b)
        self.next_link += 1
        addresses = {}

        def exchange(actor, number):
            def look(command, answer):
                if not answer.startswith("ok "):
                    raise Failure(f"{actor}: {command}: {answer}")
                addresses[number] = answer[3:]
            return look
        # Both ends of a link between an actor and itself have numbers of their own.
        for number, actor in enumerate(link.ends):
            actor.tell(f"link {2 * link.number + number}", exchange(actor, number))
        self.settle()
        for number, actor in enumerate(link.ends):
            actor.tell(f"connect {2 * link.number + number} {addresses[1 - number]}")
        self.links.append(link)

    def survivors(self):
        return [actor for actor in self.actors if not actor.dead]

    def one(self):
        return self.chance.choice(self.survivors())

    def settle(self):
        """Until all answers are here."""
        deadline = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as selector:
            for actor in self.actors:
                selector.register(actor.process.stdout, selectors.EVENT_READ, actor)
            while any(actor.waiting for actor in self.actors):
                left = deadline - time.monotonic()
                if left <= 0:
                    silent = [f"{a}: {a.waiting[0][0]}" for a in self.actors if a.waiting]
                    raise Failure("no answer: " + "; ".join(silent))
                for key, _ in selector.select(left):
                    key.data.read()
                    if not key.data.waiting and key.data.dead:
                        selector.unregister(key.fileobj)

    def transfer(self, link):
        """By one end, or from one to the other."""
        end = self.chance.randrange(2)
        actor, peer = link.ends[end], link.ends[1 - end]
        number, seed = 2 * link.number + end, self.chance.randrange(1 << 20)
        kind = self.chance.choice(["write", "write", "add", "send"])
        if kind == "write":
            size = self.chance.choice([1, 1000, 4096, 1 << 16])
            actor.tell(f"write {number} {size} {seed}", link.judge(actor))
        elif kind == "add":
            actor.tell(f"add {number} {self.chance.randrange(1, 20)}", link.judge(actor))
        elif actor is not peer and not link.broken and not peer.waiting:  # They have to happen side by side.
            count = self.chance.randrange(1, 12)
            how = self.chance.choice(["expect", "expect_event"])
            peer.tell(f"{how} {number ^ 1} {count} {seed}", link.judge(peer))
            actor.tell(f"send {number} {count} {seed}", link.judge(actor))

    def step(self):
        """Some transfers, and an event in their midst; then broken links are replaced."""
        for link in self.chance.sample(self.links, min(len(self.links), self.chance.randrange(1, 4))):
            self.transfer(link)
        if self.events:
            name = self.chance.choice(sorted(self.events))
            self.trace(f"event: {name}")
            if self.events[name](self) is not False:
                self.tally[name] = self.tally.get(name, 0) + 1
        for link in self.chance.sample(self.links, min(len(self.links), 2)):
            if not any(actor.dead for actor in link.ends):
                self.transfer(link)
        self.settle()
        self.clean_up()

    def clean_up(self):
        for link in [link for link in self.links if link.broken]:
            for end, actor in enumerate(link.ends):
                if not actor.dead:
                    actor.tell(f"write {2 * link.number + end} 1000 1", link.judge(actor))
                    actor.tell(f"close {2 * link.number + end}")
            self.links.remove(link)
        for actor in [actor for actor in self.actors if actor.dead]:
            actor.bury()
            self.actors.remove(actor)
            self.buried.append(actor)
        for actor in self.actors:
            actor.tell("check")
            if not actor.has_idle_child:
                actor.tell("reap")
        while len(self.actors) < ACTORS:
            self.new_actor()
        self.settle()
        while len(self.links) < LINKS:
            self.new_link(self.one(), self.one())
        self.settle()

    def break_links_of(self, actor, statuses):
        for link in self.links:
            if actor in link.ends:
                link.broken = {**(link.broken or {}), **statuses}

    def run(self, steps):
        try:
            self.clean_up()
            for _ in range(steps):
                self.step()
            for actor in self.actors:
                actor.tell("kill_children")
            self.settle()
            for actor in self.actors:
                actor.tell("quit")
            self.settle()
            for actor in self.actors:
                if actor.process.wait(PATIENCE) != 0:
                    raise Failure(f"{actor} ended with status {actor.process.returncode}")
            nothing_is_left()
            captures.judge(self.actors + self.buried)
        finally:
            for actor in self.actors + self.buried:
                actor.end_for_good()
            captures.clean_up(self.folder)
            shutil.rmtree(self.folder, ignore_errors=True)
        return ", ".join(f"{count} {name}" for name, count in sorted(self.tally.items()))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("bin", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("seeds")
    parser.add_argument("--steps", type=int, default=30)
    for name in ("--only", "--without"):
        parser.add_argument(name)
    parser.add_argument("--wire", choices=("udp", "shm", "mixed"), default="udp")
    for name in ("--keep-going", "--verbose"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    enter_or_skip("nm")
    first, _, last = options.seeds.partition("..")
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        start = time.monotonic()
        try:
            what = Chaos(options, seed).run(options.steps)
        except Failure as failure:
            print(f"seed {seed}: {failure}\nreplay: {' '.join(sys.argv[:2])} {seed} --steps {options.steps} "
                  f"--wire {options.wire} --verbose",
                  flush=True)
            failed += 1
            if options.keep_going:
                continue
            break
        print(f"seed {seed}: {time.monotonic() - start:.1f} s; {what}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
