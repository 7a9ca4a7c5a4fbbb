package fleet

import (
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The libvirt binding's event loop runs as long as the process does.
func TestMain(m *testing.M) {
	if uuid := os.Getenv(stopperUUID); uuid != "" {
		if err := stopper(os.Getenv(stopperURI), uuid); err != nil {
			log.Fatal(err)
		}

		return
	}

	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt.runEventLoop"))
}
