package exporter

import (
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestGuests_outliveASilentScrape: whoever reaches the exporter's port can ask for a scrape in which no host answers in
// time. It costs the next scrape nothing, and agents that hang aren't queried early.
func TestGuests_outliveASilentScrape(t *testing.T) {
	t.Parallel()
	g := newGuests(time.Hour)
	now := time.Now()
	g.known["a"] = guestFacts{host: "kvm1", info: &libvirt.GuestInfo{}, at: now, due: now.Add(time.Hour)}
	g.known["b"] = guestFacts{host: "kvm2", info: &libvirt.GuestInfo{}, at: now, due: now.Add(time.Hour)}
	g.refreshInfo(t.Context(), nil, map[string]bool{"kvm1": true})
	if g.infoOf("a") == nil {
		t.Error("what a guest of a silent host reported is forgotten")
	}
	if g.infoOf("b") != nil {
		t.Error("a VM that is gone from a host that answers isn't forgotten")
	}
}
