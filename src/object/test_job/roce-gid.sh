# Arguments: adapters, `--`, and the program, which gets the index of the GID of RoCE v2 for an address of this pod.
own=$(
  awk '/\/32 host LOCAL/ { split(last, part, "."); printf "00000000000000000000ffff%02x%02x%02x%02x\n", part[1], part[2], part[3], part[4] } /--/ { last = $2 }' /proc/net/fib_trie
  awk '$1 !~ /^fe80/ { print $1 }' /proc/net/if_inet6 2>/dev/null
)
common=
while adapter=$1 && shift && [ "$adapter" != -- ]; do
  index=
  for type in /sys/class/infiniband/"$adapter"/ports/1/gid_attrs/types/*; do
    [ "$(cat "$type" 2>/dev/null)" = "RoCE v2" ] || continue
    gid=$(tr -d ':\n' <"/sys/class/infiniband/$adapter/ports/1/gids/${type##*/}")
    if printf '%s\n' "$own" | grep -qx "$gid"; then index=${type##*/}; break; fi
  done
  [ -n "$index" ] || { echo "forge: $adapter has no GID of RoCE v2 for an address of this pod" >&2; exit 1; }
  case "$common" in "" | "$index") common=$index ;; *) common=different ;; esac
done
# If the indexes differ, NCCL chooses a GID for each adapter.
[ "$common" = different ] || export NCCL_IB_GID_INDEX="$common"
exec "$@"
