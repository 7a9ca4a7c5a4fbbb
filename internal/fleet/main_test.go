package fleet

import (
	"log"
	"os"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/leaks"
)

func TestMain(m *testing.M) {
	if uuid := os.Getenv(stopperUUID); uuid != "" {
		if err := stopper(os.Getenv(stopperURI), uuid); err != nil {
			log.Fatal(err)
		}

		return
	}

	leaks.Main(m, leaks.EventLoop)
}
