#!/bin/sh
# Builds the llama.cpp that vs_llama_cpp.py compares with.
#
#     benchmarks/build_llama_cpp.sh FOLDER
#
# The source is the one in the source package of llama-cpp-python on PyPI, at the version whose structures
# comparison/libllama.py declares. The result is in FOLDER/build/bin: libllama, llama-bench, llama-batched-bench and
# llama-perplexity. It needs Python with pip, CMake, Ninja and a C++ compiler. Clang is used where it is there: what gcc 12
# makes of the kernels for AMX crashes. CC and CXX name others; PYTHON names the interpreter that has pip.
set -eu

VERSION=0.3.36
if [ $# -ne 1 ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi

find_compiler() {
    for name in "$@"; do
        if command -v "$name" >/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "none of these compilers is installed: $*" >&2
    exit 1
}

CC=${CC:-$(find_compiler clang clang-19 clang-18 clang-17 clang-16 cc)}
CXX=${CXX:-$(find_compiler clang++ clang++-19 clang++-18 clang++-17 clang++-16 c++)}
PYTHON=${PYTHON:-python3}

mkdir -p "$1"
cd "$1"
"$PYTHON" -m pip download --no-deps --no-binary :all: "llama-cpp-python==$VERSION"
tar xf "llama_cpp_python-$VERSION.tar.gz"
cmake -S "llama_cpp_python-$VERSION/vendor/llama.cpp" -B build -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
    -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF
cmake --build build --target llama llama-bench llama-batched-bench llama-perplexity
echo "built: $(pwd)/build/bin"
