package tfdiag

import (
	"cmp"
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

// kindRemedy says what to do about a kind of error.
type kindRemedy struct {
	kind   error
	remedy string
}

// causes are kinds that explain others: a refused host key makes its host unreachable, and then it doesn't help to say
// that the host should be brought back. They win over what the error itself advises.
var causes = []kindRemedy{
	{ssh.ErrHostKey, "Compare the host's key with what its administrator says, then correct the known_hosts file; " +
		"host_key_checking = \"accept_new\" in the provider's ssh block records keys of hosts that are not yet known."},
	{ssh.ErrAuth, "Check the user in the host's URI and the keys, agent or password in the provider's ssh block; " +
		"\"ssh -v\" with the same user and key shows what the server accepts."},
	{libvirt.ErrDenied, "Connect as a user that libvirt on the host accepts: root, or a member of the group libvirt. " +
		"Over TLS: each side has to trust the authority of the other's certificate."},
}

// remedies are for errors that bring no advice of their own. The first that fits is taken, so what is more specific
// stands above what it is a case of.
var remedies = []kindRemedy{
	{fleet.ErrUnconfigured, "Put the host back into the provider's hosts under its former name. Only if it is gone for " +
		"good, keep the entry and set fenced = true, which gives up whatever still runs there."},
	{fleet.ErrTwoCopies, "Find out which copy is the right one, stop the other on its host with \"virsh destroy\", and " +
		"run again. Both write to the same disks while both run."},
	{fleet.ErrShared, "Two virtual machines must not write to one disk, or have one name: stop one of them, or give it " +
		"a disk or name of its own."},
	{fleet.ErrAmbiguous, "Remove the definition that is not wanted on its host with \"virsh undefine\", or name the " +
		"VM by its UUID."},
	{fleet.ErrDuplicateHost, "Remove one of the entries from the provider's hosts. If they are different hosts, give " +
		"each its own host_uuid in libvirtd.conf."},
	{fleet.ErrLeaseLost, "This run was suspended, or could not reach the host, for so long that another run took over. " +
		"Nothing more was changed. Plan and apply again when that run has ended."},
	{fleet.ErrLeaseUnconfirmed, "The host did not answer, so that another run may have taken over. Nothing more was " +
		"changed. Bring the host back, then plan and apply again."},
	{fleet.ErrLocked, "Wait for the other run to end. If it is known to be dead, its lock is given up after a while."},
	{fleet.ErrRestartRequired, "Set update_policy to \"Restart\" to restart the guest, or to \"Stage\" to have the " +
		"change take effect with its next start."},
	{fleet.ErrNotReady, "The virtual machine was kept. Run apply again to continue waiting, or raise wait_for.timeout."},
	{fleet.ErrNoHost, "Add or free a host, or ask for less: the reasons above name what each host lacks."},
	{libvirt.ErrAgentUnavailable, "Check that qemu-guest-agent runs in the guest and that the VM has its channel " +
		"(guest_agent = { enabled = true })."},
	{libvirt.ErrUnsupported, "The host's libvirt or QEMU can't do this: use another host or newer versions."},
	{libvirt.ErrBusy, "Another operation is under way on it: run again when that has ended."},
	{libvirt.ErrNoDaemon, "See on the host whether libvirt's daemon runs: \"systemctl status libvirtd virtqemud\", and " +
		"\"journalctl -u libvirtd -u virtqemud\" for why it ended. The user needs access to its socket. Nothing was " +
		"removed from the state. on_unreachable = \"keep\" lets plans continue while a host is under maintenance."},
	{fleet.ErrUnreachable, "Check that the host is up and that its address, the network and sshd are right (without " +
		"SSH: that libvirtd listens there). Nothing was removed from the state. on_unreachable = \"keep\" lets plans " +
		"continue while a host is under maintenance; fenced = true on the host gives it up for good."},
	{context.DeadlineExceeded, "Raise the timeout if the operation is only slow, and run again: what is done already " +
		"is found."},
	{context.Canceled, "Run again to continue: what is done already is found."},
}

// remedyFor returns what to do about an error, and "" where only its text can tell.
func remedyFor(err error, own string) string {
	return cmp.Or(ofKind(err, causes), own, ofKind(err, remedies))
}

func ofKind(err error, all []kindRemedy) string {
	for _, r := range all {
		if errors.Is(err, r.kind) {
			return r.remedy
		}
	}
	return ""
}
