# shellcheck shell=bash
# To be sourced. `apt_install PACKAGE...` installs Debian packages if that needs no password, and otherwise returns false.

apt_install() {
  local root=()
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" -ne 0 ]; then
    sudo --non-interactive true 2>/dev/null || return 1
    root=(sudo --non-interactive)
  fi
  echo "== apt-get install $*"
  # A fresh image has no package list without the update; if the update fails, an old list may still be enough.
  "${root[@]}" apt-get update --quiet --quiet || true
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --quiet --quiet --no-install-recommends "$@" >/dev/null
}
