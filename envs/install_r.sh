#!/usr/bin/env bash
# Install R and the packages of the R figures if they are missing. If that is impossible, say so in one line and fail.
set -euo pipefail
# shellcheck source=envs/apt.sh
. "$(dirname "$0")/apt.sh"

debian=(r-base-core r-cran-ggplot2 r-cran-patchwork r-cran-ragg)

complete() {
  Rscript --vanilla --default-packages=NULL \
    -e 'for (name in c("ggplot2", "patchwork", "ragg", "systemfonts")) find.package(name)' \
    >/dev/null 2>&1
}

complete && exit
if apt_install "${debian[@]}" && complete; then
  exit
fi
echo "R with ggplot2 could not be installed; the R figures are left out until you run: apt-get install ${debian[*]}" >&2
exit 1
