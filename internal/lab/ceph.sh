# Starts a Ceph cluster of one monitor and one OSD, which keeps its objects in memory, with one pool for RBD and a user for it:
# ceph.sh <directory> <address> <port> <pool>. It prints the user's key.
set -eu
dir=$1 address=$2 port=$3 pool=$4
fsid=$(cat /proc/sys/kernel/random/uuid)
mkdir -p "$dir/mon" "$dir/osd"
cat >"$dir/ceph.conf" <<CONF
[global]
fsid = $fsid
mon_host = v1:$address:$port
mon_initial_members = a
public_addr = $address
ms_bind_msgr2 = false
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = $dir/keyring
pid_file = $dir/\$type.pid
log_file = $dir/\$type.log
admin_socket = /run/ceph-$port-\$type.asok
mon_data = $dir/mon
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
osd_data = $dir/osd
osd_objectstore = memstore
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 1
osd_pool_default_min_size = 1
[osd]
keyring = $dir/osd/keyring
CONF
printf '[global]\nmon_host = v1:%s:%s\n' "$address" "$port" >"$dir/client.conf"
export CEPH_CONF=$dir/ceph.conf
ceph-authtool --create-keyring "$dir/keyring" --gen-key --name client.admin --cap mon 'allow *' --cap osd 'allow *' >/dev/null
ceph-authtool --create-keyring "$dir/mon.keyring" --gen-key --name mon. --cap mon 'allow *' >/dev/null
ceph-authtool "$dir/mon.keyring" --import-keyring "$dir/keyring" >/dev/null
monmaptool --create --addv a "[v1:$address:$port]" --fsid "$fsid" "$dir/monmap" >/dev/null
ceph-mon --mkfs --id a --monmap "$dir/monmap" --keyring "$dir/mon.keyring" >/dev/null
ceph-mon --id a >/dev/null

ceph osd create >/dev/null
ceph-osd --id 0 --mkfs --mkkey --no-mon-config 2>/dev/null
ceph auth add osd.0 mon 'allow profile osd' osd 'allow *' --in-file "$dir/osd/keyring" 2>/dev/null
ceph-osd --id 0 >/dev/null
ceph osd pool create "$pool" 8 2>/dev/null
ceph osd pool application enable "$pool" rbd 2>/dev/null
ceph auth get-or-create-key client.libvirt mon 'profile rbd' osd "profile rbd pool=$pool"
