package migration

import (
	"testing"

	"go.uber.org/goleak"
)

// The libvirt binding's event loop runs as long as the process does.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt.runEventLoop"))
}
