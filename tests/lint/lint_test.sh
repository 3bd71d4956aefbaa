#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lint_test.sh LINT_FOLDER CXX: the lints find what they are for.
set -eu
lint=$1 cxx=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

must_fail() {
  if "$@" >"$tmp/out" 2>&1; then
    echo "passed, but should have failed: $*" >&2
    exit 1
  fi
}

compile() {
  printf '%s\n' "$2" | "$cxx" -std=c++20 -O1 -x c++ -c - -o "$tmp/$1.cc.o"
  rm -f "$tmp/$1.a"
  ar rc "$tmp/$1.a" "$tmp/$1.cc.o"
}

compile pure 'void post_recv(int); namespace n { int send(int); }
int f(int x) { post_recv(x); return n::send(x); }'
"$lint/purity.sh" "$tmp/pure.a"
compile clock '#include <chrono>
long f() { return std::chrono::steady_clock::now().time_since_epoch().count(); }'
compile time '#include <ctime>
long f() { return time(nullptr); }'
compile send '#include <sys/socket.h>
long f(int s) { return send(s, "x", 1, 0); }'
compile print '#include <cstdio>
void f(int x) { std::printf("%d %d", x, x); }'
compile stream '#include <iostream>
void f(int x) { std::cout << x; }'
compile uring '#include <liburing.h>
int f(io_uring* r) { return io_uring_submit(r); }'
compile random '#include <random>
unsigned f() { return std::random_device{}(); }'
compile thread '#include <thread>
void f() { std::thread([] {}).join(); }'
for impure in clock time send print stream uring random thread; do
  must_fail "$lint/purity.sh" "$tmp/$impure.a"
  must_fail "$lint/purity.sh" "$tmp/pure.a" "$tmp/$impure.a"
done
must_fail "$lint/purity.sh" "$tmp/missing.a"
compile check '#include <cstdio>
void f(int x) { std::fprintf(stderr, "%d", x); }'
"$lint/purity.sh" "$tmp/check.a" # the one exception

tree() {
  rm -rf "$tmp/tree"
  model=verbs/nic/model device=verbs/nic/device objects=verbs/ibverbs/objects
  for room in proto $model $device $objects engine tools/rdma; do mkdir -p "$tmp/tree/$room"; done
  echo '#include "proto/bytes.h"' >"$tmp/tree/proto/a.h"
  echo '#include "proto/a.h"' >"$tmp/tree/$model/b.h"
  echo '#include "verbs/nic/model/b.h"' >"$tmp/tree/$device/c.h"
  echo '#include "proto/a.h"' >"$tmp/tree/engine/d.h"
  printf '#include "engine/d.h"\n#include "verbs/nic/device/c.h"\n' >"$tmp/tree/$objects/e.cc"
}
tree
"$lint/includes.py" "$tmp/tree"
for case in "proto/a.h $model/b.h" 'proto/a.h engine/d.h' "$model/b.h $device/c.h" "$device/c.h engine/d.h" \
            "$device/c.h $objects/f.h" "engine/d.h $model/b.h" "$objects/e.cc tools/rdma/f.h" 'engine/d.h ../proto/a.h' \
            'proto/a.h tests/x.h'; do
  tree
  echo "#include \"${case#* }\"" >>"$tmp/tree/${case%% *}"
  must_fail "$lint/includes.py" "$tmp/tree"
done
tree
mkdir "$tmp/tree/verbs/attic"
echo '#include "proto/a.h"' >"$tmp/tree/verbs/attic/g.h"
must_fail "$lint/includes.py" "$tmp/tree"
must_fail "$lint/includes.py" "$tmp"

tree
echo 'const char* f() { return secure_getenv("X"); }' >"$tmp/tree/tools/rdma/e.cc"
"$lint/getenv.sh" "$tmp/tree"
for use in 'std::getenv("X")' '::getenv("X")' 'getenv("X")'; do
  echo "const char* f() { return $use; }" >"$tmp/tree/tools/rdma/e.cc"
  must_fail "$lint/getenv.sh" "$tmp/tree"
done
must_fail "$lint/getenv.sh" "$tmp"

tree
echo 'const long numbers[] = {SYS_epoll_pwait, __NR_epoll_pwait2};' >"$tmp/tree/engine/s.cc"
"$lint/syscalls.sh" "$tmp/tree"
echo 'const long number = SYS_epoll_pwait2;' >"$tmp/tree/engine/s.cc"
must_fail "$lint/syscalls.sh" "$tmp/tree"
echo 'const char* name = ::strerrorname_np(1);' >"$tmp/tree/engine/s.cc"
must_fail "$lint/syscalls.sh" "$tmp/tree"
must_fail "$lint/syscalls.sh" "$tmp"

tree
mkdir -p "$tmp/tree/tests"
cp "$lint/../../.clang-format" "$tmp/tree/"
"$lint/format.sh" "$tmp/tree"
echo 'int  x;' >"$tmp/tree/proto/ugly.h"
must_fail "$lint/format.sh" "$tmp/tree"

tree
"$lint/spdx.py" "$tmp/tree" --add
"$lint/spdx.py" "$tmp/tree"
[ "$(head -n 1 "$tmp/tree/engine/d.h")" = "// SPDX-License-Identifier: Apache-2.0" ]
printf '#!/bin/sh\n# What it does.\n' >"$tmp/tree/tools/x.sh"
must_fail "$lint/spdx.py" "$tmp/tree"
"$lint/spdx.py" "$tmp/tree" --add
[ "$(sed -n 2p "$tmp/tree/tools/x.sh")" = "# SPDX-License-Identifier: Apache-2.0" ]
must_fail "$lint/spdx.py" "$tmp"

tree
mkdir -p "$tmp/tree/tests/unit" "$tmp/tree/docs"
echo '// IBTA Vol 1, 9.6.1: from its peer only; 10.0.0.77 is an address, 9.5 ms a time.' >"$tmp/tree/verbs/nic/model/h.cc"
printf '// IBTA 9.6.1: not from strangers.\nTEST(Peer, Only) {}\n' >"$tmp/tree/tests/unit/peer_test.cc"
: >"$tmp/tree/docs/conformance.md"
must_fail "$lint/clauses.py" "$tmp/tree"
"$lint/clauses.py" "$tmp/tree" --write
"$lint/clauses.py" "$tmp/tree"
[ "$(grep '^| [19]' "$tmp/tree/docs/clauses.md")" = '| 9.6.1 | `h.cc` | Peer: Only | |' ]
echo 'TEST(Peer, Second) {}' >>"$tmp/tree/tests/unit/peer_test.cc" # Belongs to the file's first comment.
must_fail "$lint/clauses.py" "$tmp/tree"
rm "$tmp/tree/tests/unit/peer_test.cc" "$tmp/tree/verbs/nic/model/h.cc"
must_fail "$lint/clauses.py" "$tmp/tree"

# A page and a comment that name only what is there; then a name each that is not there.
paths() {
  tree
  mkdir -p "$tmp/tree/docs/adr"
  : >"$tmp/tree/docs/adr/0001-why.md"
  cat >"$tmp/tree/docs/page.md" <<'PAGE'
# The `a` of it, all
[why](adr/0001-why.md) [up](#the-a-of-it-all) [out](https://example.org/gone.md)
`b.h` `model/b.h --x` `proto/*.h` `proto/{a.h,a}` `proto/NAME.h` `./gone.sh` `/sys/gone.h` `linux/gone.h`
PAGE
  echo '// See docs/adr/0001, verbs/{nic,ibverbs}, `e.cc`.' >>"$tmp/tree/proto/a.h"
}
paths
"$lint/doc_paths.py" "$tmp/tree"
while IFS= read -r name; do
  paths
  echo "$name" >>"$tmp/tree/docs/page.md"
  must_fail "$lint/doc_paths.py" "$tmp/tree"
done <<'NAMES'
`nic.cc`
`model/a.h`
`verbs/gone`
`see proto/*.cc`
`proto/{a,b}.h`
[x](adr/0002.md)
[x](#the-b)
[x](adr/0001-why.md#x)
[x](/etc/passwd)
NAMES
# FILE:COMMENT
for comment in 'e.h:int x; // gone.h' 'e.h:/// See verbs/gone.' 'CMakeLists.txt:x() # gone.cmake' 'e.py:"""As tools/gone."""'; do
  paths
  echo "${comment#*:}" >"$tmp/tree/tools/rdma/${comment%%:*}"
  must_fail "$lint/doc_paths.py" "$tmp/tree"
done
paths
mkdir -p "$tmp/tree/verbs/nic/transport/congestion" # That is listed as a folder to come.
must_fail "$lint/doc_paths.py" "$tmp/tree"
must_fail "$lint/doc_paths.py" "$tmp"

tree
copy_yaml() {
  rm -rf "$tmp/tree/docs" "$tmp/tree/tools"
  mkdir -p "$tmp/tree/tests" "$tmp/tree/docs"
  cp -r "$lint/../../docs/examples" "$tmp/tree/docs/"
  cp "$lint/../../action.yml" "$tmp/tree/"
  mkdir -p "$tmp/tree/tools/package"
  cp "$lint/../../tools/package/ci.sh" "$tmp/tree/tools/package/"
}
copy_yaml
"$lint/yaml_files.py" "$tmp/tree"
ci=docs/examples/ci container=docs/examples/container
# FILE and what sed makes of it.
while read -r file change; do
  copy_yaml
  sed -i "$change" "$tmp/tree/$file"
  ! cmp -s "$tmp/tree/$file" "$lint/../../$file" || { echo "nothing changed: $file $change" >&2; exit 1; }
  must_fail "$lint/yaml_files.py" "$tmp/tree"
  ! grep -q Traceback "$tmp/out" || { cat "$tmp/out" >&2; exit 1; }
done <<CHANGES
action.yml s/^  steps:/  steps: [/
action.yml s,tools/package/ci.sh find,tools/package/gone.sh find,
action.yml s/inputs.tarball/inputs.ball/
action.yml s/id: find/id: found/
action.yml /shell: bash/d
action.yml s/using: composite/using: docker/
action.yml 0,/description:/d
$ci/github.yml s/^on: .*//
$ci/github.yml s/runs-on:/runs_on:/
$ci/github.yml s/options: --devices/option: --devices/
$ci/github.yml s/- run: ibv_devinfo/- name: ibv_devinfo/
$ci/github.yml s/- run: ibv_devinfo/- run: ibv_devinfo; done/
$ci/cmake.yml s,docs/examples/cmake/CMakeLists.txt,docs/examples/make/CMakeLists.txt,
$ci/cmake.yml s/^          path: build.*/&\n          path: twice/
$ci/python.yml s,uses: actions/checkout@v4,uses: actions checkout,
$ci/gitlab.yml s/^  script:/  scripts:/
$ci/gitlab.yml s/UROCE_CI_RUN: env/UROCE_CI_RUN: 1/
$ci/gitlab.yml s,uroce/tools/package/ci.sh,uroce/tools/package/ci.bash,
$container/compose.yaml s/"1000"/1000/
$container/compose.yaml s/depends_on: .server./depends_on: [servant]/
$container/compose.yaml s/context: [^,]*/context: ../
$container/compose.yaml s/<<: .uroce/read_only: true/
$container/pod.yaml s/"1"/1/
$container/pod.yaml s/image: uroce/picture: uroce/
$container/pods.yaml s/"1"/1/
$container/pods.yaml s/selector: {app: rdma-server}/selector: {app: rdma-client}/
$container/pods.yaml s/kind: Service/kind: Servant/
$container/pods.yaml s/name: rdma-client/label: rdma-client/
$ci/github.yml $ s/$/\n---\non: [push]/
CHANGES
must_fail "$lint/yaml_files.py" "$tmp/tree/proto"
