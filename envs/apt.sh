# shellcheck shell=bash
# To be sourced: `apt_install PACKAGE...` installs Debian packages where that needs no password; false where it cannot.

apt_install() {
  local root=()
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" -ne 0 ]; then
    sudo --non-interactive true 2>/dev/null || return 1
    root=(sudo --non-interactive)
  fi
  echo "== apt-get install $*"
  # Without the update a fresh image has no package list; with an old one it may still do.
  "${root[@]}" apt-get update --quiet --quiet || true
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --quiet --quiet --no-install-recommends "$@" >/dev/null
}
