# Starts a Gluster server of one brick, with one volume: gluster.sh <directory> <address> <volume>. Clients look for the
# brick at the standard port of the address.
set -eu
dir=$1 address=$2 volume=$3
mkdir -p "$dir/state" "$dir/run" "$dir/brick" /var/log/glusterfs
cat >"$dir/glusterd.vol" <<VOL
volume management
    type mgmt/glusterd
    option working-directory $dir/state
    option run-directory $dir/run
    option transport-type socket
    option transport.socket.bind-address $address
    option transport.socket.listen-port 24007
    option ping-timeout 0
    option event-threads 1
end-volume
VOL
# Setting up replication to other sites takes the server 9 s of CPU time. Its own mounts have a program that does nothing.
printf '#!/bin/sh\necho gsyncd\n' >"$dir/gsyncd"
chmod 755 "$dir/gsyncd"
unshare --mount sh -ec 'mount --bind "$1/gsyncd" /usr/lib/x86_64-linux-gnu/glusterfs/gsyncd
exec glusterd --volfile="$1/glusterd.vol" --pid-file="$1/pid" --log-file="$1/glusterd.log"' sh "$dir"
gluster --mode=script volume create "$volume" "$address:$dir/brick" force >/dev/null
gluster --mode=script volume start "$volume" >/dev/null
