#!/bin/sh
# The real code-server in a folder of its own, from npm: as much of it as asks for its password and shows the workbench.
#   codeserver.sh FOLDER
# What VS Code has in C++ (terminals, watched files, its log) is not built: that takes minutes and more packages of Debian's.
set -eu
folder=$1
rm -rf "$folder"
mkdir -p "$folder"
[ ! -d /usr/include/node ] || export npm_config_nodedir=/usr # else node-gyp asks the network for them
quick="--ignore-scripts --omit=dev --legacy-peer-deps --no-audit --no-fund"
{
    # shellcheck disable=SC2086
    npm install --prefix "$folder" $quick code-server@4.18.0
    # shellcheck disable=SC2086
    npm install --prefix "$folder/node_modules/code-server/lib/vscode" $quick
    npm rebuild --prefix "$folder" argon2
} >"$folder/npm.log" 2>&1
touch "$folder/done"
