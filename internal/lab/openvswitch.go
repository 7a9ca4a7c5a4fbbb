package lab

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

const (
	// vswitchDir has the switch's database, vswitchRun the sockets and process ids of its services.
	vswitchDir = "/var/lib/libvirt/openvswitch"
	vswitchRun = "/run/openvswitch"
)

// startVSwitch starts the services of Open vSwitch as a distribution does, and makes a bridge. Its packets are switched
// by a process: that works on kernels without the module, too.
const startVSwitch = `set -e
dir=$1 run=$2 bridge=$3
mkdir -p "$dir" "$run"
ovsdb-tool create "$dir/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server "$dir/conf.db" --remote="punix:$run/db.sock" --pidfile="$run/ovsdb-server.pid" --detach --no-chdir \
	--log-file="$dir/log"
ovs-vsctl --timeout=60 --no-wait init
ovs-vswitchd --pidfile="$run/ovs-vswitchd.pid" --detach --no-chdir --log-file="$dir/log"
ovs-vsctl --timeout=60 add-br "$bridge" -- set bridge "$bridge" datapath_type=netdev`

// OpenVSwitch starts Open vSwitch on a host, with one bridge, until the test ends. One test at a time has it on a host.
func (l *Lab) OpenVSwitch(t testing.TB, host, bridge string) {
	t.Helper()
	m := l.need(t, host).machine
	cleanup(t, "stopping Open vSwitch on "+host, func(ctx context.Context) error {
		var errs []error
		for _, service := range []string{"ovs-vswitchd", "ovsdb-server"} {
			errs = append(errs, l.Host(host).stopService(ctx, vswitchRun+"/"+service+".pid"))
		}
		_, err := m.run(ctx, "rm", "-rf", vswitchDir, vswitchRun)
		return errors.Join(append(errs, err)...)
	})
	ctx, cancel := stepContext(t)
	defer cancel()
	if _, err := m.run(ctx, "bash", "-c", startVSwitch, "openvswitch", vswitchDir, vswitchRun, bridge); err != nil {
		t.Fatal(fmt.Errorf("starting Open vSwitch on %s, whose log is %s: %w", host, m.path(vswitchDir+"/log"), err))
	}
}
