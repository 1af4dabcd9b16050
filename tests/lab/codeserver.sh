#!/bin/sh
# Install the real code-server from npm into a folder, with the parts that ask for its password and show the workbench.
#   codeserver.sh FOLDER
# The C++ parts of VS Code (terminals, watched files, its log) are not built: that takes minutes and more Debian packages.
set -eu
folder=$1
rm -rf "$folder"
mkdir -p "$folder"
[ ! -d /usr/include/node ] || export npm_config_nodedir=/usr # otherwise node-gyp downloads the headers
quick="--ignore-scripts --omit=dev --legacy-peer-deps --no-audit --no-fund"
{
    # shellcheck disable=SC2086
    npm install --prefix "$folder" $quick code-server@4.18.0
    # shellcheck disable=SC2086
    npm install --prefix "$folder/node_modules/code-server/lib/vscode" $quick
    npm rebuild --prefix "$folder" argon2
} >"$folder/npm.log" 2>&1
touch "$folder/done"
