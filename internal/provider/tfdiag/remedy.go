package tfdiag

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"syscall"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// kindRemedy is what to do about a kind of error.
type kindRemedy struct {
	kind   error
	remedy string
}

// anyHost stands for the host's entry in the provider block. It is replaced if the error names the host.
const anyHost = "hosts.<name>"

// errNoAddress stands for each error of the resolver: the host wasn't asked.
var errNoAddress = errors.New("no address of the host is known")

// is says whether an error is of a kind.
func is(err, kind error) bool {
	if kind == errNoAddress { //nolint:errorlint // The list's own entry.
		_, unresolved := errors.AsType[*net.DNSError](err)
		return unresolved
	}
	return errors.Is(err, kind)
}

// causes are kinds of errors that explain others, and take precedence over the error's own advice. A refused host key
// makes its host unreachable, but the advice to bring the host back wouldn't help. VMs run on without libvirt's daemon,
// so that a host without it must not be fenced. Nothing is changed on a host that keeps no locks. And an operation that
// lost its lease was not cancelled. A host with a storage pool that doesn't answer is up.
var causes = []kindRemedy{
	{libvirt.ErrStorageSilent, libvirt.SilentStorageRemedy + " Nothing was removed from the state."},
	{errNoAddress, "Nothing was sent to the host, so it may be up, and its VMs may run. Correct the host's name in " +
		anyHost + ".uri, or in ssh_config or jump_hosts, or its entry in DNS; \"getent hosts\" with the name shows what " +
		"this computer knows. Nothing was removed from the state."},
	{ssh.ErrHostKey, "Compare the fingerprint with the one that the host's administrator gives you, then correct the " +
		"known_hosts file. host_key_checking = \"accept_new\" in the provider's ssh block records keys of new hosts."},
	{ssh.ErrAuth, "Check the user in the host's URI and the keys, agent or password in the provider's ssh block, and " +
		"the user of a jump host in jump_hosts or ssh_config; \"ssh -v\" with the same user and key shows what the server " +
		"accepts."},
	{libvirt.ErrReadOnly, "The connection to the host is read-only. Check " + anyHost + ".uri in the provider block: " +
		"its socket must not be libvirt-sock-ro, and its user needs the right to manage libvirt, as root or a member of " +
		"the group libvirt has it."},
	{libvirt.ErrDenied, "Connect as a user that libvirt on the host accepts: root, or a member of the group libvirt. " +
		"Over TLS: each side has to trust the authority of the other's certificate."},
	{libvirt.ErrNoSecretDriver, "Install libvirt's secret driver on the host (package libvirt-daemon-driver-secret on " +
		"Red Hat's systems, libvirt-daemon on Debian's), and restart libvirt's daemon there."},
	{fleet.ErrLeaseLost, "This run was suspended or didn't reach the host for so long that another run took over. " +
		"This run then changed nothing more. Plan and apply again when that run has ended."},
	{fleet.ErrLeaseUnconfirmed, "The host did not answer, so another run may have taken over. This run then changed " +
		"nothing more. Bring the host back, then plan and apply again."},
	{libvirt.ErrNoDaemon, "Check on the host that libvirt's daemon runs: \"systemctl status libvirtd virtqemud\", and " +
		"\"journalctl -u libvirtd -u virtqemud\" to see why it ended. The user needs access to its socket. Nothing was " +
		"removed from the state."},
	{libvirt.ErrRefused, "The host is up: don't declare it fenced, because its VMs run on. Remove the cause that " +
		"libvirt's daemon names, see \"journalctl -u libvirtd -u virtqemud\" there, or connect as root. Nothing was " +
		"removed from the state."},
}

// remedies are for errors without advice of their own. The first match counts, so specific kinds come before general
// ones.
var remedies = []kindRemedy{
	{hostset.ErrOtherHost, "Set that key's uri to the former host again, or add the former host under another key. " +
		"Nothing was changed. If the former host is gone, or if this is the same host with a new UUID, remove the resource " +
		"from the state with \"terraform state rm\", and import it."},
	{fleet.ErrMovedAway, "Add that host to the provider's hosts: the VM is then found there, and nothing is created. Or " +
		"have the VM moved back. If the VM was deleted there, or is no longer this configuration's, remove it from the " +
		"state with \"terraform state rm\": the next plan then creates another VM if one is declared, also while the old " +
		"one runs."},
	{fleet.ErrUnconfigured, "Add the host to the provider's hosts again, under its former name. If the host is off, " +
		"add it with fenced = true: its VMs are then created on other hosts."},
	{fleet.ErrTwoCopies, "Find out which copy is the one that you need, stop the other on its host with " +
		"\"virsh destroy\", and run again. Both write to the same disks while both run."},
	{fleet.ErrShared, "Two running virtual machines must not write to one disk or have the same name: stop one of them, " +
		"or give it another disk or name."},
	{fleet.ErrAmbiguous, "Remove the definition that you don't need on its host with \"virsh undefine\", or name the " +
		"VM by its UUID."},
	{fleet.ErrDuplicateHost, "Remove one of the entries from the provider's hosts. If they are different hosts, give " +
		"each its own host_uuid in libvirtd.conf."},
	{fleet.ErrLocked, "Wait for the other run to end. If that run was killed, apply again: its lock is taken over " +
		"after about half a minute."},
	{fleet.ErrRestartRequired, "Set update_policy to \"Restart\" to restart the guest, or to \"Stage\" to apply " +
		"the change at its next start."},
	{fleet.ErrNotReady, "The virtual machine runs and was kept. Apply again to continue waiting, or raise " +
		"wait_for.timeout."},
	{fleet.ErrNoHost, "Add a host, free resources on one, or require less. The reasons above name what each host lacks."},
	{libvirt.ErrAgentUnavailable, "Check that qemu-guest-agent runs in the guest and that the VM has its channel " +
		"(guest_agent = { enabled = true })."},
	{storage.ErrNotStarted, "Check that the host has what source and target name. With build = true, a new pool creates " +
		"it. If the host has it, its libvirt may lack the type of the pool."},
	{storage.ErrNotStartedWithSecret, "Check that the host reaches source.hosts, and that the storage accepts " +
		"source.auth.username with the value of the secret. To correct the value, set it in the virtfleet_secret, with " +
		"another value_wo_version. Then apply again."},
	{storage.ErrChecksum, "Compare the checksum with the one that the publisher of the file announces. If that is what " +
		"you set, the source has another file than it should have."},
	{storage.ErrCreatesNone, "When the volume is there, import it."},
	{storage.ErrCopiesNone, "When the volume is there, import it."},
	{storage.ErrConverted, "Nothing was changed. Plan again with a refresh: the plan says what to do."},
	{storage.ErrOtherPool, "To delete the data of this pool, make it the resource's: remove the resource from the state " +
		"with \"terraform state rm\", import it, apply, and destroy it."},
	{network.ErrInUse, ChangeUsersFirst},
	{libvirt.ErrNoDriver, "Install libvirt's driver for it on the host, and check that the driver's daemon runs, if it " +
		"has one of its own: \"systemctl status 'virt*d.socket'\"."},
	{libvirt.ErrNotNow, "libvirt refuses this for the virtual machine as it is, or can't do it at all. If a backup or a " +
		"block job runs (\"virsh domjobinfo\", \"virsh blockjob\"), end it, or wait for its end. If the virtual machine " +
		"has snapshots (\"virsh snapshot-list\"), see whether they prevent it. Then plan and apply again. Otherwise use " +
		"another host or newer versions."},
	{libvirt.ErrUnsupported, "The host's libvirt or QEMU can't do this: use another host or newer versions."},
	{storage.ErrNoSpace, "Free space in the storage pool, or use another pool. If you free it without libvirt, run " +
		"\"virsh pool-refresh\" for the pool on the host: until then libvirt doesn't know of it. Then apply again."},
	{storage.ErrOvercommitted, "Use a smaller size or another storage pool, remove volumes, or raise the host's " +
		"storage_overprovisioning_factor."},
	{storage.ErrInUse, "The volume was kept. Apply again once nothing uses it."},
	{libvirt.ErrBusy, "Another operation is in progress: apply again when it has ended."},
	{ssh.ErrDropped, "The host's address accepts connections, so the host may be up, and its VMs may run. Read sshd's " +
		"log there: if too many connections log in at once, apply again later, or raise MaxStartups in sshd_config. " +
		"A firewall or fail2ban may close them too. Nothing was removed from the state."},
	{syscall.ECONNREFUSED, "The host's address answers and refuses the connection, so the host may be up, and its VMs " +
		"may run. Check the port, and that sshd runs there (without SSH: that libvirtd listens there). Nothing was " +
		"removed from the state."},
	{fleet.ErrUnreachable, "Check that the host is up and that its address, the network and sshd are right (without " +
		"SSH: that libvirtd listens there). If the host is off, and its VMs must start on other hosts, set fenced = true " +
		"for it. Nothing was removed from the state."},
	{context.DeadlineExceeded, "If the operation is only slow, raise the timeout. Apply again to continue: finished " +
		"work is recognized."},
	{context.Canceled, "Apply again to continue: finished work is recognized."},
}

// planWithout says how to continue while a host is unreachable. The error doesn't know whether "keep" is set, so this
// has to be true in both cases. A warning lacks it: the run continues, often because "keep" is set.
const planWithout = "With on_unreachable = \"keep\" in the provider block, a plan keeps the last known state of what " +
	"is on the host. A plan or an apply then fails only for changes that need this host. Leave these out until it is " +
	"back, or use -target."

// silences are the kinds of errors whose remedy planWithout follows.
var silences = []error{
	errNoAddress, ssh.ErrDropped, syscall.ECONNREFUSED, libvirt.ErrNoDaemon, libvirt.ErrRefused, fleet.ErrUnreachable,
}

// remedyFor returns what to do about an error, and "" if only the error's text says it. fails says that the run fails
// because of it.
func remedyFor(err error, own string, fails bool) string {
	if remedy := ofKind(err, causes, fails); remedy != "" {
		return remedy
	}
	remedy := cmp.Or(own, ofKind(err, remedies, fails))
	if remedy == "" && libvirt.IsNoPool(err) {
		return noPool
	}
	return remedy
}

// noPool is what to do about a storage pool that a host lacks, as after it was undefined by hand.
const noPool = "Define the storage pool on the host again: an apply of its virtfleet_storage_pool does that. What " +
	"was in it is still there, unless it was deleted as well. Then apply again."

func ofKind(err error, all []kindRemedy, fails bool) string {
	for _, r := range all {
		switch {
		case !is(err, r.kind):
		case fails && slices.Contains(silences, r.kind):
			return r.remedy + " " + planWithout
		default:
			return r.remedy
		}
	}
	return ""
}
