package lab

import (
	"context"
	"fmt"
	"strconv"
	"testing"
)

// ISCSITarget is a disk that every host can reach with a user name and a password, by the protocol iSCSI.
type ISCSITarget struct {
	// IQN is the target's name. Its only disk is unit 1.
	IQN string
	// Host and Port are where it is served.
	Host string
	Port int
	// Username and Password are what the target lets in (CHAP).
	Username, Password string

	lab *Lab
}

// startISCSI serves a file. It waits until the server takes orders.
const startISCSI = `set -e
port=$1 address=$2 dir=$3 iqn=$4 user=$5 password=$6
mkdir -p /run/tgtd
tgtd --control-port "$port" --pid-file "$dir/pid" --iscsi "portal=$address:$port"
order() { tgtadm --control-port "$port" --lld iscsi "$@"; }
until order --op show --mode sys >/dev/null 2>&1; do sleep 0.02; done
order --op new --mode target --tid 1 --targetname "$iqn"
order --op new --mode logicalunit --tid 1 --lun 1 --backing-store "$dir/disk"
order --op new --mode account --user "$user" --password "$password"
order --op bind --mode account --tid 1 --user "$user"
order --op bind --mode target --tid 1 --initiator-address ALL`

// ISCSI serves an empty disk of that many bytes to all hosts, until the test ends.
func (l *Lab) ISCSI(t testing.TB, name string, size int64) *ISCSITarget {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	target := &ISCSITarget{
		IQN: "iqn.2026-01.org.virtfleet.lab:" + name, Host: l.store.address, Username: "lab", Password: "let-the-lab-in",
		lab: l,
	}
	cleanup(t, "removing target "+name, func(ctx context.Context) error { return l.RemoveExport(ctx, name) })
	if err := l.createTarget(ctx, name, size, target); err != nil {
		t.Fatal(err)
	}
	return target
}

func (l *Lab) createTarget(ctx context.Context, name string, size int64, target *ISCSITarget) (err error) {
	dir, port, err := l.claimExport(name, size)
	if err != nil {
		return err
	}
	target.Port = port
	_, err = l.store.run(ctx, "bash", "-c", startISCSI, "iscsi", strconv.Itoa(port), l.store.address, dir, target.IQN,
		target.Username, target.Password)
	if err != nil {
		return fmt.Errorf("creating target %s: %w", name, err)
	}
	return nil
}

// Sessions returns what the target says of those that are logged in.
func (s *ISCSITarget) Sessions(t testing.TB) string {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	out, err := s.lab.store.run(ctx, "tgtadm", "--control-port", strconv.Itoa(s.Port), "--lld", "iscsi", "--op", "show",
		"--mode", "target")
	if err != nil {
		t.Fatal(fmt.Errorf("asking the target: %w", err))
	}
	return out
}
