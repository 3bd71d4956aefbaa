#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The YAML files can be what they are meant to be: yaml_files.py SOURCE_ROOT

The action, workflows, .gitlab-ci.yml, Compose files and pods are for services that are not here. So this finds what can
be found without them: syntax, keys that come twice, steps that do nothing or two things, inputs that nobody declares,
arguments that are no strings, shell that does not parse, and names of files of the repository that do not exist. Needs
Debian's python3-yaml.
"""
import os
import pathlib
import re
import subprocess
import sys

import yaml

HERE = re.compile(r"(?<![\w.-])((?:docs|tools|tests|verbs|engine|proto|pcaps)/[\w./-]*\w)")
OF_ACTION = re.compile(r"\$\{?GITHUB_ACTION_PATH\}?/([\w./-]+)")
EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
ACTION = "OWNER/uroce@"


class Loader(yaml.SafeLoader):
    """Refuses keys that come twice, and takes the key `on` for a word, as the services do."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"the key '{key}' comes twice{node.start_mark}")
        return super().construct_mapping(node, deep)


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag != "tag:yaml.org,2002:bool"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|false)$"), list("tf"))


class Checker:
    def __init__(self, root):
        self.root, self.name, self.wrong = root, "", []
        self.inputs = {}

    def expect(self, right, sentence):
        if not right:
            self.wrong.append(f"{self.name}: {sentence}")
        return right

    def is_map(self, value, what):
        return self.expect(isinstance(value, dict) and value, f"{what} is no map")

    def is_list(self, value, what):
        return self.expect(isinstance(value, list) and value, f"{what} is no list")

    def strings(self, value, what):
        if self.is_list(value, what):
            for part in value:
                self.expect(isinstance(part, str), f"{what}: {part!r} is no string; put it in quotes")

    def shell(self, text, what):
        if self.expect(isinstance(text, str), f"{what}: the command is no text"):
            done = subprocess.run(["bash", "-n"], input=EXPRESSION.sub("x", text), capture_output=True, text=True, check=False)
            self.expect(done.returncode == 0, f"{what}: {done.stderr.strip()}")

    def file(self, file):
        self.name = file.relative_to(self.root).as_posix()
        text = file.read_text()
        for named in HERE.findall(text):
            self.expect((self.root / named).exists(), f"there is no {named}")
        try:
            documents = list(yaml.load_all(text, Loader))  # A SafeLoader.
        except yaml.YAMLError as error:
            self.expect(False, f"no YAML: {error}")
            return
        if not all([self.is_map(content, "the file") for content in documents or [None]]):
            return
        if "kind" in documents[0]:
            self.pods(documents)
            return
        self.expect(len(documents) == 1, "more than one document")
        content = documents[0]
        for key, check in (("runs", self.action), ("jobs", self.workflow), ("services", self.compose)):
            if key in content:
                check(content)
                return
        self.gitlab(content)

    def action(self, content):
        self.expect(content.get("name") and content.get("description"), "an action needs a name and a description")
        for name, value in self.inputs.items():
            self.expect(value.get("description"), f"the input {name} has no description")
        runs = content["runs"]
        if not (self.is_map(runs, "runs") and self.expect(runs.get("using") == "composite", "the action is not composite")):
            return
        self.steps(runs.get("steps"), "the action", shell_needed=True)

    def workflow(self, content):
        self.expect(content.get("on"), "nothing says when it runs (on:)")
        if not self.is_map(content["jobs"], "jobs"):
            return
        for name, job in content["jobs"].items():
            if self.is_map(job, f"job {name}"):
                self.expect(job.get("runs-on"), f"job {name}: no runs-on")
                self.steps(job.get("steps"), f"job {name}", shell_needed=False)

    def steps(self, steps, of, shell_needed):
        if not self.is_list(steps, f"{of}: steps"):
            return
        ids = set()
        for number, step in enumerate(steps, 1):
            what = f"{of}, step {number}"
            if not self.is_map(step, what):
                continue
            self.expect(("run" in step) != ("uses" in step), f"{what}: needs either run or uses")
            for used in re.findall(r"steps\.([\w-]+)\.", str(step)):
                self.expect(used in ids, f"{what}: no step before it has the id {used}")
            for used in re.findall(r"\binputs\.([\w-]+)", str(step)):
                self.expect(used in self.inputs, f"{what}: no input {used}")
            ids.add(step.get("id"))
            if "run" in step:
                self.shell(step["run"], what)
                self.expect(not shell_needed or step.get("shell"), f"{what}: run in an action needs a shell")
                for named in OF_ACTION.findall(str(step["run"])):
                    self.expect(os.access(self.root / named, os.X_OK), f"{what}: no program {named}")
            uses = str(step.get("uses", ""))
            self.expect("uses" not in step or re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[\w.-]+|\./.*", uses), f"{what}: uses: {uses}")
            if uses.startswith(ACTION):
                for given in step.get("with") or {}:
                    self.expect(given in self.inputs, f"{what}: the action has no input {given}")

    def gitlab(self, content):
        jobs = {name: job for name, job in content.items() if isinstance(job, dict) and "script" in job}
        self.expect(jobs, "neither an action, a workflow, a Compose file, a pod, nor .gitlab-ci.yml")
        for name, job in jobs.items():
            for key in ("before_script", "script", "after_script"):
                if key in job:
                    self.strings(job[key], f"{name}: {key}")
                    self.shell("\n".join(map(str, job[key])), f"{name}: {key}")
            for key, value in (job.get("variables") or {}).items():
                self.expect(isinstance(value, str), f"{name}: the variable {key} is no string")

    def compose(self, content):
        if not self.is_map(content["services"], "services"):
            return
        folder = (self.root / self.name).parent
        for name, service in content["services"].items():
            if not self.is_map(service, f"service {name}"):
                continue
            self.expect("image" in service or "build" in service, f"service {name}: neither image nor build")
            self.strings(service.get("command"), f"service {name}: command")
            for other in service.get("depends_on", []):
                self.expect(other in content["services"], f"service {name}: depends on {other}, which is none")
            build = service.get("build", {})
            context = folder / build.get("context", ".")
            named = context / build.get("dockerfile", "Dockerfile")
            self.expect("build" not in service or named.is_file(), f"service {name}: there is no {named}")

    def pods(self, documents):
        """What Kubernetes is to create: pods, and services that give some of them a name."""
        pods = [content for content in documents if content.get("kind") == "Pod"]
        labels = [(content.get("metadata") or {}).get("labels") or {} for content in pods]
        for content in documents:
            name = (content.get("metadata") or {}).get("name")
            self.expect(content.get("apiVersion") and name, "needs an apiVersion and a name in its metadata")
            if content in pods:
                self.pod(content)
            elif self.expect(content.get("kind") == "Service", f"{content.get('kind')} {name} is neither a pod nor a service"):
                selector = (content.get("spec") or {}).get("selector") or {}
                self.expect(selector and any(selector.items() <= of.items() for of in labels), f"service {name} selects no pod")

    def pod(self, content):
        containers = (content.get("spec") or {}).get("containers")
        if self.is_list(containers, "containers"):
            for container in containers:
                self.expect(container.get("name") and container.get("image"), "a container needs a name and an image")
                self.strings(container.get("args"), f"container {container.get('name')}: args")


def yaml_files(root):
    """All of them, in order, but not those of builds."""
    found = []
    for folder, folders, names in os.walk(root):
        if pathlib.Path(folder) == root:
            folders[:] = [name for name in folders if name not in ("build", ".git")]
        found += [pathlib.Path(folder, name) for name in names if name.endswith((".yml", ".yaml"))]
    return sorted(found)


def main(root):
    checker = Checker(root)
    files = yaml_files(root)
    if not files:
        sys.exit(f"no YAML files under {root}: wrong folder?")
    action = root / "action.yml"
    if action in files:
        try:
            checker.inputs = (yaml.load(action.read_text(), Loader) or {}).get("inputs") or {}
        except yaml.YAMLError:
            pass  # Said below.
    for file in files:
        checker.file(file)
    if checker.wrong:
        sys.exit("\n".join(checker.wrong))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
