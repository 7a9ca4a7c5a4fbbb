package inventory

import (
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A guest that is paused without a job is resumed only if nothing says that it may be one half of a migration.
func TestVM_pausedSinceAStart(t *testing.T) {
	t.Parallel()

	ago := func(d time.Duration) *domain.Starting {
		return &domain.Starting{HostUUID: "u", Since: time.Now().Add(-d)}
	}

	for name, tt := range map[string]struct {
		mark   *domain.Starting
		silent []string
		want   bool
	}{
		"no mark":                {nil, nil, false},
		"started here":           {ago(time.Minute), nil, true},
		"by another time":        {ago(-time.Minute), nil, true},
		"started elsewhere":      {&domain.Starting{HostUUID: "v", Since: time.Now()}, nil, false},
		"long ago":               {ago(restartPatience + time.Minute), nil, false},
		"without a time":         {&domain.Starting{HostUUID: "u"}, nil, false},
		"a host does not answer": {ago(time.Minute), []string{"kvm2"}, false},
	} {
		vm := &VM{HostUUID: "u", SilentHosts: tt.silent, Metadata: domain.Metadata{Starting: tt.mark}}
		if got := vm.startsFromSaved(); got != tt.want {
			t.Errorf("%s: it may be resumed: %v", name, got)
		}
	}
}

// A VM is off since an interrupted restart only if nothing says that a user has turned it off since.
func TestVM_offSinceARestart(t *testing.T) {
	t.Parallel()

	const interrupted, lapsed = status.ReasonRestartInterrupted, status.ReasonRestartLapsed

	ago := func(d time.Duration) *domain.Restarting { return &domain.Restarting{Since: time.Now().Add(-d)} }
	forced := &domain.Restarting{Since: time.Now(), Forced: true}

	for name, tt := range map[string]struct {
		mark  *domain.Restarting
		state libvirt.DomainState
		why   string
		want  string
	}{
		"no mark":                    {nil, libvirt.Shutoff, "Shutdown", "Shutdown"},
		"shut down":                  {ago(time.Minute), libvirt.Shutoff, "Shutdown", interrupted},
		"shut down, by another time": {ago(-time.Minute), libvirt.Shutoff, "Shutdown", interrupted},
		"forgotten":                  {ago(time.Minute), libvirt.Shutoff, "Unknown", lapsed},
		"not started":                {ago(time.Minute), libvirt.Shutoff, "Failed", interrupted},
		"crashed":                    {ago(time.Minute), libvirt.Shutoff, "Crashed", interrupted},
		"within the grace period":    {ago(restartPatience + time.Minute), libvirt.Shutoff, "Shutdown", interrupted},
		"long ago":                   {ago(restartPatience + 4*time.Minute), libvirt.Shutoff, "Shutdown", lapsed},
		"without a time":             {&domain.Restarting{}, libvirt.Shutoff, "Shutdown", lapsed},
		"destroyed by a user":        {ago(time.Minute), libvirt.Shutoff, "Destroyed", lapsed},
		"destroyed by the update":    {forced, libvirt.Shutoff, "Destroyed", interrupted},
		"reverted":                   {ago(time.Minute), libvirt.Shutoff, "FromSnapshot", "FromSnapshot"},
		"running":                    {ago(time.Minute), libvirt.Running, "Booted", "Booted"},
		"kept after a crash":         {ago(time.Minute), libvirt.Crashed, "Panicked", "Panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			vm := &VM{
				State: tt.state, Active: tt.state != libvirt.Shutoff, Reason: tt.why,
				Metadata: domain.Metadata{Restarting: tt.mark, TerminationGracePeriod: new(3 * time.Minute)},
			}
			if got := vm.StatusReason(); got != tt.want {
				t.Errorf("the reason is %q, want %q", got, tt.want)
			}

			// It is off for the same reason on another host, whose libvirt knows of none.
			moved := &VM{State: tt.state, Active: vm.Active, Reason: "Unknown", Metadata: vm.Metadata}
			if moved.Metadata.Restarting = vm.CarriedRestart(); !vm.Active &&
				(moved.StatusReason() == interrupted) != (tt.want == interrupted) {
				t.Errorf("on another host the reason is %q, want %q", moved.StatusReason(), tt.want)
			}

			vm.ManagedSave = true
			if got := vm.StatusReason(); got != tt.why {
				t.Errorf("with saved memory the reason is %q, want %q", got, tt.why)
			}
		})
	}
}
