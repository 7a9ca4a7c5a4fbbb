package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	golibvirt "libvirt.org/go/libvirt"
)

func TestOpen_readsTheURI(t *testing.T) {
	t.Parallel()
	for uri, kind := range map[string]error{
		"":                     nil,
		"qemu:///system":       nil,
		"system":               ErrInvalid,
		"://":                  ErrInvalid,
		"qemu+ssh:///system":   ErrInvalid, // no host
		"qemu+ssh://kvm1":      ErrInvalid, // no path
		"qemu+ssh://a/system":  ErrInvalid, // nothing to dial with
		"qemu+ssh://a/session": ErrInvalid, // as well
	} {
		h, err := Open(Config{Name: "kvm1", URI: uri})
		if !errors.Is(err, kind) {
			t.Errorf("%q: got error %v, want %v", uri, err, kind)
		}
		if err == nil {
			must(t, h.Close())
		}
	}
}

func TestDomains_areReadFromTheTestDriver(t *testing.T) {
	t.Parallel()
	h := testDriver(t, testDomain("a", uuidOf(1)), testDomain("b", uuidOf(2)))
	ctx := t.Context()
	must(t, h.DestroyDomain(ctx, uuidOf(2), false))

	domains, err := h.Domains(ctx)
	must(t, err)
	if len(domains) != 2 {
		t.Fatalf("got %d domains, want 2", len(domains))
	}
	for _, d := range domains {
		one, err := h.Domain(ctx, d.UUID)
		must(t, err)
		named, err := h.DomainByName(ctx, d.Name)
		must(t, err)
		if diff := cmp.Diff(d, *one); diff != "" {
			t.Errorf("Domain differs from Domains: %s", diff)
		}
		if diff := cmp.Diff(d, *named); diff != "" {
			t.Errorf("DomainByName differs from Domains: %s", diff)
		}
		running := d.Name == "a"
		if d.Active() != running || (d.LiveXML != "") != running || !d.Persistent || d.PersistentXML == "" {
			t.Errorf("%s: state %s, persistent %t, live XML %q", d.Name, d.State, d.Persistent, d.LiveXML)
		}
	}
}

func TestDomain_goesThroughItsLife(t *testing.T) {
	t.Parallel()
	h := testDriver(t)
	ctx := t.Context()
	uuid, err := h.DefineDomain(ctx, testDomain("web", uuidOf(7)))
	must(t, err)
	if uuid != uuidOf(7) {
		t.Fatalf("got UUID %s", uuid)
	}
	for _, step := range []struct {
		name   string
		do     func() error
		kind   error
		state  DomainState
		reason string
	}{
		{"start", func() error { return h.StartDomain(ctx, uuid) }, nil, Running, "Booted"},
		{"pause", func() error { return h.SuspendDomain(ctx, uuid) }, nil, Paused, "User"},
		{"resume", func() error { return h.ResumeDomain(ctx, uuid) }, nil, Running, "Unpaused"},
		{"power button", func() error { return h.ShutdownDomain(ctx, uuid, ShutdownACPI) }, ErrInvalid, Running, "Unpaused"},
		{"destroy", func() error { return h.DestroyDomain(ctx, uuid, true) }, nil, Shutoff, "Destroyed"},
		{"autostart", func() error { return h.SetAutostart(ctx, uuid, true) }, nil, Shutoff, "Destroyed"},
		{"rename", func() error { return h.RenameDomain(ctx, uuid, "www") }, nil, Shutoff, "Destroyed"},
	} {
		if err := step.do(); !errors.Is(err, step.kind) {
			t.Fatalf("%s: got error %v, want %v", step.name, err, step.kind)
		}
		d, err := h.Domain(ctx, uuid)
		must(t, err)
		if d.State != step.state || d.Reason != step.reason {
			t.Fatalf("%s: got %s (%s), want %s (%s)", step.name, d.State, d.Reason, step.state, step.reason)
		}
	}
	d, err := h.DomainByName(ctx, "www")
	must(t, err)
	if d.Name != "www" || !d.Autostart {
		t.Errorf("got name %q, autostart %t", d.Name, d.Autostart)
	}
	must(t, h.UndefineDomain(ctx, uuid))
	_, err = h.Domain(ctx, uuid)
	want(t, err, ErrNotFound)
}

func TestDomain_transientHasNoPersistentDefinition(t *testing.T) {
	t.Parallel()
	h := testDriver(t, testDomain("a", uuidOf(1)))
	ctx := t.Context()
	must(t, h.UndefineDomain(ctx, uuidOf(1)))
	domains, err := h.Domains(ctx)
	must(t, err)
	one, err := h.Domain(ctx, uuidOf(1))
	must(t, err)
	for _, d := range append(domains, *one) {
		if d.Persistent || d.PersistentXML != "" || d.LiveXML == "" {
			t.Errorf("persistent %t, persistent XML %q, live XML %q", d.Persistent, d.PersistentXML, d.LiveXML)
		}
	}
	must(t, h.DestroyDomain(ctx, uuidOf(1), false))
	domains, err = h.Domains(ctx)
	must(t, err)
	if len(domains) != 0 {
		t.Errorf("got %d domains after a transient one ended", len(domains))
	}
}

func TestSetMetadata_isFoundInTheDefinition(t *testing.T) {
	t.Parallel()
	h := testDriver(t, testDomain("a", uuidOf(1)))
	ctx := t.Context()
	const namespace = "urn:virtfleet:1"
	metadata := func() string {
		d, err := h.Domain(ctx, uuidOf(1))
		must(t, err)
		var domain struct {
			VM *struct {
				Inner string `xml:",innerxml"`
			} `xml:"metadata>vm"`
		}
		must(t, xml.Unmarshal([]byte(d.PersistentXML), &domain))
		if domain.VM == nil {
			return ""
		}
		return domain.VM.Inner
	}
	must(t, h.SetMetadata(ctx, uuidOf(1), "virtfleet", namespace, "<vm><label>x</label></vm>", AffectConfig|AffectLive))
	if got := metadata(); !strings.Contains(got, "x") {
		t.Errorf("got metadata %q", got)
	}
	must(t, h.SetMetadata(ctx, uuidOf(1), "virtfleet", namespace, "", AffectConfig|AffectLive))
	if got := metadata(); got != "" {
		t.Errorf("got metadata %q after removing it", got)
	}
	want(t, h.SetMetadata(ctx, uuidOf(1), "virtfleet", namespace, "<vm>", AffectConfig), ErrInvalid)
}

func TestErrors_haveAKind(t *testing.T) {
	t.Parallel()
	h := testDriver(t, testDomain("a", uuidOf(1)))
	ctx := t.Context()
	for name, test := range map[string]struct {
		do   func() error
		kind error
	}{
		"absent UUID":  {func() error { _, err := h.Domain(ctx, uuidOf(9)); return err }, ErrNotFound},
		"absent name":  {func() error { _, err := h.DomainByName(ctx, "b"); return err }, ErrNotFound},
		"no UUID":      {func() error { _, err := h.Domain(ctx, "a"); return err }, ErrInvalid},
		"no XML":       {func() error { _, err := h.DefineDomain(ctx, "domain"); return err }, ErrInvalid},
		"wrong XML":    {func() error { _, err := h.DefineDomain(ctx, "<domain><name/></domain>"); return err }, ErrInvalid},
		"start absent": {func() error { return h.StartDomain(ctx, uuidOf(9)) }, ErrNotFound},
		"agent": {func() error {
			_, err := h.AgentCommand(ctx, uuidOf(1), `{"execute":"guest-ping"}`)
			return err
		}, ErrUnsupported},
		"QMP":     {func() error { _, err := h.QMP(ctx, uuidOf(1), "query-status", nil); return err }, ErrUnsupported},
		"secrets": {func() error { _, err := h.OwnSecret(ctx, "virtfleet:test"); return err }, ErrUnsupported},
		"no such volume": {func() error {
			_, err := h.VolumeByPath(ctx, "/nowhere")
			return err
		}, ErrNotFound},
		"no driver": {func() error {
			_, err := open(t, Config{URI: "nonsense:///system"}).Info(ctx)
			return err
		}, ErrUnreachable},
		"no daemon": {func() error {
			_, err := open(t, Config{URI: "qemu+unix:///system?socket=/nowhere"}).Info(ctx)
			return err
		}, ErrUnreachable},
	} {
		err := test.do()
		if !errors.Is(err, test.kind) {
			t.Errorf("%s: got error %v, want one that is %q", name, err, test.kind)
		}
		var e *Error
		if !errors.As(err, &e) || e.Host != "kvm1" || e.Operation == "" {
			t.Errorf("%s: %v doesn't tell host and operation", name, err)
		}
		if text := err.Error(); !strings.HasPrefix(text, "host kvm1: ") || strings.Contains(text, "virError") {
			t.Errorf("%s: got message %q", name, text)
		}
	}
}

func TestInfo_describesTheHost(t *testing.T) {
	t.Parallel()
	h := testDriver(t)
	info, err := h.Info(t.Context())
	must(t, err)
	if info.Driver != "TEST" || info.CPUs == 0 || info.MemoryBytes == 0 || info.Hostname == "" ||
		!info.LibvirtVersion.AtLeast(5, 0, 0) || len(info.Guests) == 0 {
		t.Errorf("got %s", cmp.Diff(HostInfo{}, *info))
	}
	before := h.Calls()
	again, err := h.Info(t.Context())
	must(t, err)
	if again != info || !cmp.Equal(before, h.Calls()) {
		t.Error("the host was asked twice")
	}
}

func TestCalls_countsRoundTrips(t *testing.T) {
	t.Parallel()
	h := testDriver(t, testDomain("a", uuidOf(1)), testDomain("b", uuidOf(2)), testDomain("c", uuidOf(3)))
	must(t, h.DestroyDomain(t.Context(), uuidOf(1), false))
	before := h.Calls()
	_, err := h.Domains(t.Context())
	must(t, err)
	got := map[string]int{}
	for procedure, n := range h.Calls() {
		if n -= before[procedure]; n > 0 {
			got[procedure] = n
		}
	}
	// Two run, one doesn't: the list calls, their states, and a definition each but two for those that run.
	expected := map[string]int{
		"virConnectListAllDomains": 5, "virConnectGetAllDomainStats": 1, "virDomainGetXMLDesc": 5,
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Error(diff)
	}
}

func TestContext_endsACall(t *testing.T) {
	t.Parallel()
	h := testDriver(t, testDomain("a", uuidOf(1)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Domains(ctx)
	want(t, err, context.Canceled)
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err = h.Domains(past)
	want(t, err, context.DeadlineExceeded)
	if _, err := h.Domains(t.Context()); err != nil {
		t.Errorf("the host is of no use any more: %v", err)
	}
}

func TestClose_endsEverything(t *testing.T) {
	t.Parallel()
	h, err := Open(Config{Name: "kvm1", URI: "test:///default"})
	must(t, err)
	events, err := h.Subscribe(t.Context(), "")
	must(t, err)
	must(t, h.Close())
	if _, ok := <-events; ok {
		t.Error("the subscription is still open")
	}
	_, err = h.Domains(t.Context())
	want(t, err, ErrClosed)
	_, err = h.Subscribe(t.Context(), "")
	want(t, err, ErrClosed)
	must(t, h.Close())
}

func TestSubscribe_deliversWhatHappens(t *testing.T) {
	t.Parallel()
	h := testDriver(t, testDomain("a", uuidOf(1)), testDomain("b", uuidOf(2)))
	ctx, cancel := context.WithCancel(t.Context())
	one, err := h.Subscribe(ctx, uuidOf(1))
	must(t, err)
	all, err := h.Subscribe(t.Context(), "")
	must(t, err)
	must(t, h.DestroyDomain(t.Context(), uuidOf(2), false))
	must(t, h.DestroyDomain(t.Context(), uuidOf(1), false))
	stopped := func(name string, n int) Event {
		return Event{Kind: EventLifecycle, UUID: uuidOf(n), Name: name, Detail: "Stopped", Reason: "Destroyed"}
	}
	if diff := cmp.Diff(stopped("a", 1), <-one); diff != "" {
		t.Errorf("the subscriber of one got %s", diff)
	}
	for _, expected := range []Event{stopped("b", 2), stopped("a", 1)} {
		if diff := cmp.Diff(expected, <-all); diff != "" {
			t.Errorf("the subscriber of all got %s", diff)
		}
	}
	cancel()
	if _, ok := <-one; ok {
		t.Error("the subscription outlived its context")
	}
}

func TestSubscribe_tellsASlowSubscriberWhatItMissed(t *testing.T) {
	t.Parallel()
	h := testDriver(t, testDomain("a", uuidOf(1)))
	slow, err := h.Subscribe(t.Context(), "")
	must(t, err)
	for range eventBuffer + 10 {
		h.events.deliver(Event{Kind: EventReboot, UUID: uuidOf(1)})
	}
	kinds := map[EventKind]int{}
	for range eventBuffer {
		e := <-slow
		kinds[e.Kind]++
		if e.Kind == EventLost && e.Detail != LostBehind {
			t.Errorf("got %v", e)
		}
	}
	if kinds[EventLost] != 1 || kinds[EventReboot] != eventBuffer-1 {
		t.Errorf("got %v", kinds)
	}
	h.events.deliver(Event{Kind: EventReboot, UUID: uuidOf(1)})
	if e := <-slow; e.Kind != EventReboot {
		t.Errorf("got %v after catching up", e)
	}
}

// Only CompleteXML reads secrets.
func TestCompleteXML_hasTheSecrets(t *testing.T) {
	t.Parallel()
	h := testDriver(t, strings.Replace(testDomain("a", uuidOf(1)), "</domain>",
		`<devices><graphics type='vnc' passwd='secret12'/></devices></domain>`, 1))
	ctx := t.Context()
	all, err := h.Domains(ctx)
	must(t, err)
	one, err := h.Domain(ctx, uuidOf(1))
	must(t, err)
	for _, d := range append(all, *one) {
		if strings.Contains(d.PersistentXML+d.LiveXML, "secret12") || !strings.Contains(d.PersistentXML, "<graphics") {
			t.Errorf("a reading has the password, or no screen:\n%s", d.PersistentXML)
		}
	}
	complete, err := h.CompleteXML(ctx, uuidOf(1))
	if err != nil || !strings.Contains(complete, "passwd='secret12'") {
		t.Errorf("%v: the password isn't in\n%s", err, complete)
	}
	_, err = h.CompleteXML(ctx, uuidOf(404))
	want(t, err, ErrNotFound)
}

// TestDetachDevice_guestNotAsked: only a guest that was asked for a device can be said to hold it. A host that is too
// slow to ask it, or that refuses to, says nothing about the guest.
func TestDetachDevice_guestNotAsked(t *testing.T) {
	t.Parallel()
	const disk = `<disk type='file' device='disk'><source file='/a.img'/><target dev='vda' bus='virtio'/></disk>`
	h := testDriver(t, strings.Replace(testDomain("a", uuidOf(1)), "</domain>", "<devices>"+disk+"</devices></domain>", 1))
	var wanted device
	must(t, xml.Unmarshal([]byte(disk), &wanted))
	_, present, err := h.liveAlias(t.Context(), uuidOf(1), wanted)
	if err != nil || !present {
		t.Fatalf("the running domain has the disk: %t, %v", present, err)
	}
	late, expire := expires(t)
	expire()

	refused := make(chan Event, 1)
	refused <- Event{Kind: EventDeviceRemovalFailed, Device: "virtio-disk0"}
	for what, err := range map[string]error{
		"the guest refuses":        h.awaitRemoval(t.Context(), uuidOf(1), "virtio-disk0", wanted, refused),
		"the guest doesn't answer": h.awaitRemoval(late, uuidOf(1), "virtio-disk0", wanted, nil),
	} {
		if !errors.Is(err, ErrNotReleased) || !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", what, err)
		}
	}

	busy := h.wrap(changeCall("x"), golibvirt.Error{Code: golibvirt.ERR_OPERATION_TIMEOUT, Message: "no lock"}, false)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for what, err := range map[string]error{
		"the host is slow":        h.DetachDevice(late, uuidOf(1), disk, AffectLive),
		"its detach call is slow": h.detach(late, uuidOf(1), disk, AffectLive),
		"the host can't ask":      h.DetachDevice(t.Context(), uuidOf(1), disk, AffectLive),
		"another job runs":        busy,
		"the user stops waiting":  h.awaitRemoval(stopped, uuidOf(1), "virtio-disk0", wanted, nil),
	} {
		if err == nil || errors.Is(err, ErrNotReleased) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
