package inventory

import (
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// What is to be done about a guest whose memory is lost in post-copy: the provider ends it as on_irrecoverable says
// only if it began the migration and both hosts answer. Otherwise the remedy is a command, and keeps the definition.
func TestPostCopyRemedy_namesWhatHasAnEffect(t *testing.T) {
	t.Parallel()

	began := []domain.Migration{{SourceHost: "kvm1", TargetHost: "kvm2", Start: time.Unix(1, 0)}}

	for what, c := range map[string]struct {
		migrations []domain.Migration
		peers      map[string]string
		transient  bool
		want, not  []string
	}{
		"both hosts answer": {
			migrations: began, peers: map[string]string{"1": "kvm1", "2": "kvm2"},
			want: []string{"on_irrecoverable", "virsh destroy " + vmUUID, "to delete the VM"},
		},
		"the source is fenced": {
			migrations: began, peers: map[string]string{"2": "kvm2"},
			want: []string{
				`host "kvm1" is fenced or not in hosts`, `Make sure that host "kvm1" is off`, "virsh destroy " + vmUUID,
			},
			not: []string{"on_irrecoverable", "virsh define"},
		},
		"the source is fenced, and no definition is left": {
			migrations: began, peers: map[string]string{"2": "kvm2"}, transient: true,
			want: []string{"virsh define", "virsh destroy " + vmUUID}, not: []string{"on_irrecoverable"},
		},
		"another tool began it": {
			peers: map[string]string{"1": "kvm1", "2": "kvm2"},
			want:  []string{"another tool", "virsh destroy " + vmUUID}, not: []string{"on_irrecoverable", "is off"},
		},
	} {
		vm := &VM{
			UUID: vmUUID, Name: "web", Host: "kvm2", HostUUID: "2", State: libvirt.Running,
			Reason: status.ReasonPostcopyFailed, Active: true, Persistent: !c.transient, Peers: c.peers,
			HostStates: map[string]string{"kvm2": "Running (PostcopyFailed)"},
			Metadata:   domain.Metadata{Migrations: c.migrations},
		}
		remedy, _ := vm.PostCopyRemedy()

		for _, part := range c.want {
			if !strings.Contains(remedy, part) {
				t.Errorf("%s: %q is missing in: %s", what, part, remedy)
			}
		}

		for _, part := range c.not {
			if strings.Contains(remedy, part) {
				t.Errorf("%s: it says %q: %s", what, part, remedy)
			}
		}
	}
}

// A source that has ended because it had sent all has lost nothing, and whoever asks is told to destroy nothing. That
// counts only of the source of this migration. A reason that libvirt has forgotten proves nothing, and libvirt forgets
// a transient VM when it ends: it has to be looked up before anything is destroyed.
func TestPostCopyRemedy_afterTheSourceHasEnded(t *testing.T) {
	t.Parallel()

	began := domain.Migration{SourceHost: "kvm1", TargetHost: "kvm2", Start: time.Unix(1, 0)}
	renamed := began
	renamed.SourceHost, renamed.SourceUUID = "hv1", "uuid-of-kvm1"
	unknownName := began
	unknownName.SourceHost = "hv1"
	removed := began
	removed.SourceHost, removed.SourceUUID = "removed", "uuid-of-removed"

	const asks = `end of /var/log/libvirt/qemu/web.log on host "kvm1"`

	off := func(host, reason string) Reply { return said(host, libvirt.Shutoff, reason) }
	forgot := off("kvm3", "Unknown")

	for what, c := range map[string]struct {
		record  *domain.Migration
		answers []Reply
		want    status.PostCopyVerdict
		asksLog bool
		// transient says that the VM has no definition on the target.
		transient bool
	}{
		"it has sent all":             {&began, []Reply{left("kvm1")}, status.PostCopySent, false, false},
		"it has sent all, renamed":    {&renamed, []Reply{left("kvm1")}, status.PostCopySent, false, false},
		"it has sent all, one silent": {&began, []Reply{left("kvm1"), silent("kvm3")}, status.PostCopySent, false, false},
		"perhaps, by another name":    {&unknownName, []Reply{left("kvm1")}, status.PostCopyUndecided, false, false},
		"perhaps, no record":          {nil, []Reply{left("kvm1")}, status.PostCopyUndecided, false, false},
		"it has crashed":              {&began, []Reply{off("kvm1", "Crashed")}, status.PostCopyLost, false, false},
		"it was destroyed":            {&began, []Reply{off("kvm1", "Destroyed")}, status.PostCopyLost, false, false},
		"it is gone":                  {&began, []Reply{hasNot("kvm1")}, status.PostCopyLost, false, false},
		"it is gone, sent by a third": {&began, []Reply{hasNot("kvm1"), left("kvm3")}, status.PostCopyLost, false, false},
		"it is fenced, sent by a 3rd": {&began, []Reply{fenced("kvm1"), left("kvm3")}, status.PostCopyLost, false, false},
		"it isn't in hosts any more":  {&removed, []Reply{left("kvm3")}, status.PostCopyLost, false, false},
		"it has forgotten":            {&began, []Reply{off("kvm1", "Unknown")}, status.PostCopyLost, true, false},
		"it has forgotten, no record": {nil, []Reply{off("kvm1", "Unknown")}, status.PostCopyLost, true, false},
		"it is gone, 3rd has forgot":  {&began, []Reply{hasNot("kvm1"), forgot}, status.PostCopyLost, false, false},
		"it is gone, transient":       {&began, []Reply{hasNot("kvm1")}, status.PostCopyLost, true, true},
		"it is fenced, transient":     {&began, []Reply{fenced("kvm1")}, status.PostCopyLost, false, true},
		"it has crashed, and stays":   {&began, []Reply{off("kvm1", "Crashed")}, status.PostCopyLost, false, true},
	} {
		broken := said("kvm2", libvirt.Running, "PostcopyFailed")
		if c.record != nil {
			d, err := domain.Parse(broken.Domain.LiveXML)
			if err != nil {
				t.Fatal(err)
			}

			if err := d.SetMetadata(domain.Metadata{}.WithMigration(*c.record)); err != nil {
				t.Fatal(err)
			}

			xml, err := d.XML()
			if err != nil {
				t.Fatal(err)
			}

			broken.Domain.LiveXML, broken.Domain.PersistentXML = xml, xml
		}

		if c.transient {
			broken.Domain.Persistent, broken.Domain.PersistentXML = false, ""
		}

		vm, err := Locate(append(c.answers, broken), vmUUID, LastKnown{Host: "kvm1"})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}

		if got := vm.StateFacts().PostCopy(); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}

		remedy, _ := vm.PostCopyRemedy()
		destroys := strings.Contains(remedy, "on_irrecoverable") || strings.Contains(remedy, "virsh destroy")

		if destroys != (c.want == status.PostCopyLost) || strings.Contains(remedy, asks) != c.asksLog {
			t.Errorf("%s: it says %q", what, remedy)
		}

		if last := vm.LastMigration(); last != nil && last.Failed != (c.want == status.PostCopyLost) {
			t.Errorf("%s: its last migration: %+v", what, last)
		}
	}
}

// A part of a guest's memory isn't lost as long as its host may be one that doesn't answer: the record of the migration
// has the name that the host had in another configuration, or before it was renamed.
func TestPostCopy_peerUnderAnotherName(t *testing.T) {
	t.Parallel()

	for what, c := range map[string]struct {
		asked, silent []string
		want          status.PostCopyVerdict
	}{
		"it doesn't answer":                       {[]string{"kvm1", "kvm2"}, []string{"kvm1"}, status.PostCopyUndecided},
		"it was renamed, and doesn't answer":      {[]string{"hv1", "kvm2"}, []string{"hv1"}, status.PostCopyUndecided},
		"it was renamed, and answers":             {[]string{"hv1", "kvm2"}, nil, status.PostCopyLost},
		"it is fenced, and another one is silent": {[]string{"kvm1", "kvm2", "kvm3"}, []string{"kvm3"}, status.PostCopyLost},
	} {
		vm := &VM{
			UUID: vmUUID, Name: "web", Host: "kvm2", HostUUID: "2", State: libvirt.Running,
			Reason: status.ReasonPostcopyFailed, Active: true, Persistent: true, asked: c.asked, SilentHosts: c.silent,
			HostStates: map[string]string{"kvm2": "Running (PostcopyFailed)"},
			Metadata: domain.Metadata{
				Migrations: []domain.Migration{{SourceHost: "kvm1", TargetHost: "kvm2", Start: time.Unix(1, 0)}},
			},
		}
		if got := vm.StateFacts().PostCopy(); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
