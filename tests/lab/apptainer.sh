#!/bin/sh
# Unpack a real Apptainer into a folder: Debian's package and the C library that it needs. Nothing is installed.
#   apptainer.sh FOLDER
# Only Debian's unstable release has the package. Tests mount the folder over /usr, /etc and /var/lib of a test node.
set -eu
folder=$1
rm -rf "$folder"
mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial" "$folder/root/var/lib/apptainer/mnt/session"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main" >"$folder/sources.list"
apt() {
    apt-get -qq -o Dir::State="$folder/state" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$folder/cache" \
        -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root "$@"
}
{
    apt update
    cd "$folder" && apt download apptainer libc6 libseccomp2 libsqlite3-0
} >"$folder/apt.log" 2>&1
for package in "$folder"/*.deb; do dpkg -x "$package" "$folder/root"; done
rm -rf "$folder/state" "$folder/cache" "$folder"/*.deb
touch "$folder/done"
