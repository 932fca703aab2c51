# A host that says it is Rocky Linux 9: Debian's real rpm, dnf and createrepo_c, and the packages of
# tests/fleet/worlds/rocky-9.tsv in three repositories below /srv/world. dpkg's database moves away, so that rpm has the
# only one. Packages are empty; module streams are those of NVIDIA's repository.
# shellcheck shell=bash disable=SC2154

packed() {
  echo 'deb [trusted=yes] file:/srv/forge-repo/trade ./' >/etc/apt/sources.list.d/trade.list
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends dnf dnf-plugins-core rpm createrepo-c >/dev/null 2>&1
  mkdir -p /srv/world
  grep -v '^#' /root/world.tsv >"$work/table"
  while IFS=$'\t' read -r of name epoch version release relations; do
    build "$of" "$name" "$epoch" "$version" "$release" "$relations"
  done <"$work/table"
  local repository
  for repository in cuda docker kubernetes base; do createrepo_c -q "/srv/world/$repository"; done
  modules | modifyrepo_c --mdtype=modules --new-name=modules.yaml /dev/stdin /srv/world/cuda/repodata >/dev/null 2>&1 ||
    { modules >"$work/modules.yaml" && modifyrepo_c --mdtype=modules "$work/modules.yaml" /srv/world/cuda/repodata >/dev/null; }
  become_rocky
  rm -rf "$work"
}

# Builds one empty package.
build() {
  local folder=/srv/world/$1 spec=$work/$2.spec relation
  mkdir -p "$folder"
  {
    printf 'Name: %s\nEpoch: %s\nVersion: %s\nRelease: %s\nSummary: a stand-in of forge\nLicense: none\nBuildArch: noarch\n' \
      "$2" "$3" "$4" "$5"
    while read -r relation; do
      [[ -z $relation ]] || printf '%s\n' "${relation/ = V/ = $3:$4}"
    done < <(tr ';' '\n' <<<"$6" | sed 's/^ *//')
    printf '%%description\nA stand-in of forge, no real software.\n%%files\n'
  } >"$spec"
  rpmbuild -bb --quiet --define "_topdir $work/rpm" --define "_rpmdir $folder" --define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.noarch.rpm' \
    --define '_build_id_links none' --dbpath "$work/rpmdb" "$spec" >/dev/null 2>"$work/log" || { cat "$work/log" >&2; return 1; }
}

# The streams of the open modules: only the packages of the enabled one are offered.
modules() {
  local branch
  for branch in 570 580; do
    printf -- '---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n  stream: "%s-open"\n  version: 20251101000000\n  context: abcdef01\n  arch: x86_64\n  summary: Nvidia driver\n  description: Nvidia driver\n  license: {module: [MIT]}\n  artifacts:\n    rpms:\n' "$branch"
    awk -F'\t' -v branch="$branch" '$1 == "cuda" && $4 ~ "^" branch "[.]" && $3 == 3 {
      printf "    - %s-%s:%s-%s.noarch\n", $2, $3, $4, $5 }' "$work/table"
    printf '...\n'
  done
}

become_rocky() {
  cat >/etc/os-release <<'EOF'
NAME="Rocky Linux"
VERSION="9.4 (Blue Onyx)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.4"
PRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"
EOF
  mkdir -p /etc/yum.repos.d /etc/pki/rpm-gpg /etc/sysconfig /var/lib/rpm
  printf '[base]\nname=base\nbaseurl=file:///srv/world/base\nenabled=1\ngpgcheck=0\n' >/etc/yum.repos.d/base.repo
  printf '[main]\ngpgcheck=1\nmodule_platform_id=platform:el9\n' >/etc/dnf/dnf.conf
  # Debian's package adds a repository of everything that was installed.
  printf '[main]\nenabled = false\n' >/etc/dnf/plugins/local.conf
  rm -rf /var/lib/dnf/plugins/local
  rpm --initdb
  rpm -i --nosignature --force-debian /srv/world/base/rocky-release-*.rpm 2>/dev/null
  mv /var/lib/dpkg /var/lib/dpkg.debian
}
