#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# python_package.sh FOLDER: the Debian package python3-gpumem, of FOLDER, with the library and the daemon of the other
# packages there, unpacked and on the emulated driver.
set -eu -o pipefail

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/tap.sh
. "$source_folder/tests/tap.sh"

folder=$(cd "$1" && pwd)
place=$(mktemp -d)
daemon=

end() {
        [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
        rm -rf "$place"
}
trap end EXIT

for name in python3-gpumem libgpumem-client0 gpumemd gpumemd-emulator; do
        dpkg-deb --extract "$folder/${name}"_[0-9]*.deb "$place/root"
done
libraries=$(dirname "$(find "$place/root/usr/lib" -name 'libgpumem-client.so.0')")
emulator=$(find "$place/root/usr/lib" -name 'libcuda-emu.so')
modules=$place/root/usr/lib/python3/dist-packages

export GPUMEM_SOCKET=$place/gpumemd.sock GPUMEM_CUDA_LIBRARY=$emulator
export GPUMEM_EMULATOR="devices=1,bytes=1GiB,dir=$place/devices"
export PYTHONPATH=$modules LD_LIBRARY_PATH=$libraries PYTHONDONTWRITEBYTECODE=1
echo '{}' >"$place/empty.conf"
"$place/root/usr/bin/gpumemd" --config "$place/empty.conf" --log warning --device-bytes 64MiB --pinned-bytes 64MiB &
daemon=$!
for _ in {1..500}; do
        [ ! -S "$GPUMEM_SOCKET" ] || break
        sleep 0.02
done

cd "$place"
ok "it brings no library of its own" test ! -e "$modules/gpumem/lib"
ok "import gpumem" said 0 "$modules/gpumem/__init__.py" \
        /usr/bin/python3 -c 'import gpumem; gpumem.empty(1000, device=0); print(gpumem.__file__)'
# shellcheck disable=SC2016  # Python has it.
ok "the library is the other package's" said 0 "$libraries/libgpumem-client.so.0" \
        /usr/bin/python3 -c 'import gpumem; gpumem.connect(); print(open("/proc/self/maps").read())'
ok "python3 -m gpumem doctor" said 0 "no faults" /usr/bin/python3 -m gpumem doctor
done_testing
