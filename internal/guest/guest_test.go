package guest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// conn is an agent that a test plays: what it answers to each question, and what it was asked.
type conn struct {
	info  func(ctx context.Context, groups libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error)
	raw   func(ctx context.Context, command string) (string, error)
	vcpus *libvirt.GuestVCPUs
	asked int
}

func (c *conn) GuestInfo(
	ctx context.Context, _ string, groups libvirt.GuestInfoGroups,
) (*libvirt.GuestInfo, error) {
	c.asked++
	return c.info(ctx, groups)
}

func (c *conn) GuestVCPUs(context.Context, string) (*libvirt.GuestVCPUs, error) {
	if c.vcpus == nil {
		return nil, failure(libvirt.ErrAgentFailed, "command guest-get-vcpus has been disabled")
	}
	return c.vcpus, nil
}

func (c *conn) AgentCommand(ctx context.Context, _, command string) (string, error) {
	c.asked++
	if c.raw == nil {
		return "", errors.New("a raw command was sent")
	}
	return c.raw(ctx, command)
}

func failure(kind error, text string) error {
	return &libvirt.Error{Host: "kvm1", Operation: "asking the agent", Kind: kind, Err: errors.New(text)}
}

// everything is an agent's answer to all questions.
func everything() *libvirt.GuestInfo {
	name := "web"
	return &libvirt.GuestInfo{
		OS: &libvirt.GuestOS{ID: "debian"}, Hostname: &name, Timezone: &libvirt.GuestTimezone{Name: "UTC"},
		Interfaces: []libvirt.GuestInterface{{Name: "eth0"}}, Users: []libvirt.GuestUser{},
		Filesystems: []libvirt.GuestFilesystem{}, Disks: []libvirt.GuestDisk{}, Load: &libvirt.GuestLoad{},
	}
}

var notAsked = guest.Unavailable{Reason: guest.NotAsked, Detail: "raw commands taint the domain"}

func TestInfo_oneQuestionPerCallWithoutRawCommands(t *testing.T) {
	t.Parallel()
	c := &conn{
		info:  func(context.Context, libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) { return everything(), nil },
		vcpus: &libvirt.GuestVCPUs{Present: 2, Online: 1},
	}
	got, err := guest.Info(t.Context(), c, "uuid", guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &guest.Report{
		AgentConnected: true, Info: *everything(), VCPUs: c.vcpus, Unavailable: map[guest.Group]guest.Unavailable{
			guest.GroupAgent: notAsked, guest.GroupFSFreeze: notAsked, guest.GroupCounters: notAsked,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c.asked != 1 {
		t.Errorf("asked %d questions", c.asked)
	}
}

// Disks without their bus, as of libvirt 9.0, come with the reason; a disk without one among others has none.
func TestInfo_saysWhyNoDiskHasABus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		disks   []libvirt.GuestDisk
		unknown bool
	}{
		"no disk": {[]libvirt.GuestDisk{}, false}, "no bus": {[]libvirt.GuestDisk{{Name: "/dev/vda"}}, true},
		"some": {[]libvirt.GuestDisk{{Name: "/dev/vda", GuestBus: "virtio"}, {Name: "/dev/dm-0"}}, false},
	} {
		c := &conn{
			info: func(context.Context, libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) {
				return &libvirt.GuestInfo{Disks: test.disks}, nil
			},
		}
		got, err := guest.Info(t.Context(), c, "uuid", guest.Options{Only: []guest.Group{guest.GroupDisks}})
		if err != nil {
			t.Fatal(err)
		}
		if why, unknown := got.Unavailable[guest.DiskBus]; unknown != test.unknown ||
			unknown && (why.Reason != guest.Unsupported || why.Detail == "") {
			t.Errorf("%s: %v", name, got.Unavailable)
		}
	}
}

// play answers raw commands by name.
func play(t *testing.T, answers map[string]string) func(context.Context, string) (string, error) {
	t.Helper()
	return func(_ context.Context, request string) (string, error) {
		var command struct{ Execute string }
		if err := json.Unmarshal([]byte(request), &command); err != nil {
			t.Errorf("sent %s: %v", request, err)
		}
		answer, ok := answers[command.Execute]
		if !ok {
			return "", failure(libvirt.ErrAgentFailed, "The command "+command.Execute+" has been disabled")
		}
		return answer, nil
	}
}

func TestInfo_rawCommandsGiveVersionCommandsAndCounters(t *testing.T) {
	t.Parallel()
	c := &conn{
		info: func(context.Context, libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) { return everything(), nil },
		raw: play(t, map[string]string{
			"guest-info": `{"return":{"version":"7.2.0","supported_commands":[
				{"name":"guest-ping","enabled":true},{"name":"guest-exec","enabled":false},
				{"name":"guest-info","enabled":true}]}}`,
			"guest-fsfreeze-status": `{"return":"thawed"}`,
			"guest-network-get-interfaces": `{"return":[{"name":"eth0","statistics":{"rx-bytes":7,"tx-errs":1}},
				{"name":"eth1"}]}`,
		}),
	}
	got, err := guest.Info(t.Context(), c, "uuid", guest.Options{RawCommands: true})
	if err != nil {
		t.Fatal(err)
	}
	thawed := "thawed"
	want := &guest.Report{
		AgentConnected: true, Info: *everything(), FSFreeze: &thawed,
		Agent:    &guest.Agent{Version: "7.2.0", Commands: []string{"guest-info", "guest-ping"}},
		Counters: map[string]guest.Counters{"eth0": {RXBytes: 7, TXErrors: 1}},
		Unavailable: map[guest.Group]guest.Unavailable{
			guest.GroupVCPUs: {Reason: guest.Refused, Detail: "command guest-get-vcpus has been disabled"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if lacks, exact := got.Lacks(); !exact || len(lacks) != 8 {
		t.Errorf("lacks %v, exact %t", lacks, exact)
	}
}

func TestInfo_probeTellsHowItEnded(t *testing.T) {
	t.Parallel()
	c := &conn{
		info: func(context.Context, libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) { return everything(), nil },
		raw: play(t, map[string]string{
			"guest-exec":        `{"return":{"pid":42}}`,
			"guest-exec-status": `{"return":{"exited":true,"exitcode":3,"out-data":"aGk="}}`,
		}),
	}
	o := guest.Options{Probe: &guest.Probe{Command: []string{"/bin/true"}}}
	got, err := guest.Info(t.Context(), c, "uuid", o)
	if err != nil {
		t.Fatal(err)
	}
	three := 3
	want := &guest.ProbeResult{Exited: true, ExitStatus: &three, Output: []byte("hi")}
	if diff := cmp.Diff(want, got.Probe); diff != "" {
		t.Error(diff)
	}
	// One that doesn't end in time is told as such.
	c.raw = play(t, map[string]string{
		"guest-exec": `{"return":{"pid":42}}`, "guest-exec-status": `{"return":{"exited":false}}`,
	})
	o.Probe.Timeout = 10 * time.Millisecond
	if got, err = guest.Info(t.Context(), c, "uuid", o); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&guest.ProbeResult{}, got.Probe); diff != "" {
		t.Error(diff)
	}
	// And so is one that the agent doesn't run.
	c.raw = play(t, nil)
	if got, err = guest.Info(t.Context(), c, "uuid", o); err != nil {
		t.Fatal(err)
	}
	if got.Probe != nil || got.Unavailable[guest.GroupProbe].Reason != guest.Refused {
		t.Errorf("got %v, %v", got.Probe, got.Unavailable[guest.GroupProbe])
	}
}

// TestInfo_hungAgentCostsOneTimeout proves that an agent which hangs is asked once, however much is to be known.
func TestInfo_hungAgentCostsOneTimeout(t *testing.T) {
	t.Parallel()
	c := &conn{info: func(ctx context.Context, _ libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	got, err := guest.Info(t.Context(), c, "uuid", guest.Options{RawCommands: true, Timeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if c.asked != 1 || got.AgentConnected {
		t.Errorf("asked %d questions, connected = %t", c.asked, got.AgentConnected)
	}
	for _, g := range guest.Groups() {
		want := guest.Unavailable{Reason: guest.TimedOut, Detail: "the guest agent didn't answer within 10ms"}
		if got.Unavailable[g] != want {
			t.Errorf("%s: %q", g, got.Unavailable[g])
		}
	}
}

func TestInfo_missingAgentIsNoError(t *testing.T) {
	t.Parallel()
	c := &conn{info: func(context.Context, libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) {
		return nil, failure(libvirt.ErrAgentUnavailable, "QEMU guest agent is not connected")
	}}
	got, err := guest.Info(t.Context(), c, "uuid", guest.Options{ChannelClosed: true})
	if err != nil {
		t.Fatal(err)
	}
	want := guest.Silent(guest.NotConnected, "QEMU guest agent is not connected")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestInfo_restrictedAgentTellsTheRest proves that one group which an agent refuses doesn't hide the others.
func TestInfo_restrictedAgentTellsTheRest(t *testing.T) {
	t.Parallel()
	c := &conn{info: func(_ context.Context, groups libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) {
		if groups&libvirt.GuestTimezoneInfo != 0 {
			return nil, failure(libvirt.ErrAgentFailed, "command guest-get-timezone has been disabled")
		}
		all, some := everything(), &libvirt.GuestInfo{}
		if groups&libvirt.GuestOSInfo != 0 {
			some.OS = all.OS
		}
		if groups&libvirt.GuestHostname != 0 {
			some.Hostname = all.Hostname
		}
		return some, nil
	}}
	got, err := guest.Info(t.Context(), c, "uuid", guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !got.AgentConnected || got.Info.OS == nil || got.Info.Hostname == nil {
		t.Errorf("got %v", got)
	}
	for g, why := range map[guest.Group]guest.Reason{
		guest.GroupAgent: guest.NotAsked, guest.GroupTimezone: guest.Refused, guest.GroupInterfaces: guest.NotReported,
	} {
		if got.Unavailable[g].Reason != why {
			t.Errorf("%s: %v, want %s", g, got.Unavailable[g], why)
		}
	}
	if lacks, exact := got.Lacks(); exact || !cmp.Equal(lacks, []string{"guest-get-timezone"}) {
		t.Errorf("lacks %v, exact %t", lacks, exact)
	}
}

func TestInfo_errors(t *testing.T) {
	t.Parallel()
	for _, kind := range []error{libvirt.ErrNotFound, libvirt.ErrUnreachable} {
		c := &conn{info: func(context.Context, libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) {
			return nil, failure(kind, "x")
		}}
		if _, err := guest.Info(t.Context(), c, "uuid", guest.Options{}); !errors.Is(err, kind) {
			t.Errorf("got %v, want %v", err, kind)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &conn{info: func(ctx context.Context, _ libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) {
		cancel()
		return nil, ctx.Err()
	}}
	if _, err := guest.Info(ctx, c, "uuid", guest.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller's cancellation", err)
	}
}

func TestInfo_strangeAnswerIsReported(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"", "{}", `{"return":{}}`, `[1]`} {
		c := &conn{
			info: func(context.Context, libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error) { return everything(), nil },
			raw:  func(context.Context, string) (string, error) { return answer, nil },
		}
		got, err := guest.Info(t.Context(), c, "uuid", guest.Options{RawCommands: true})
		if err != nil || got.Agent != nil || got.Unavailable[guest.GroupAgent].Reason != guest.NotReported {
			t.Errorf("%q: %v, %v", answer, got, err)
		}
	}
}
