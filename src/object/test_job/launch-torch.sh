# Arguments: those of torchrun, which starts files. The operator names the first pod and the place of this one.
printf '%s\n' "$FORGE_PROGRAM" >/tmp/forge-collective.py || exit 1
exec torchrun --node-rank="$RANK" --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"
