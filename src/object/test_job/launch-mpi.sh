# Arguments: processes of each host, attempts to reach the sshd of all hosts, and the arguments of mpirun.
slots=$1 left=$2
shift 2
# Volcano writes the names of the workers to a variable, the MPI operator to a file.
names=${VC_WORKER_HOSTS:-$(sed 's/[ :].*//' /etc/mpi/hostfile)}
hosts=
for name in $(printf '%s\n' "$names" | tr ',' ' '); do
  until why=$(ssh -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=5 "$name" true 2>&1); do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { echo "forge: no login to $name: $why" >&2; exit 1; }
    sleep 1
  done
  hosts=${hosts:+$hosts,}$name:$slots
done
# It has the same hosts, and two lists are one too many.
unset OMPI_MCA_orte_default_hostfile PRTE_MCA_prte_default_hostfile
[ -z "${LD_LIBRARY_PATH:-}" ] || set -- -x LD_LIBRARY_PATH "$@"
# With an absolute path, mpirun finds its daemon at the same place on the other hosts.
exec "$(command -v mpirun)" --host "$hosts" "$@"
