# Production moves while it runs, before all others. One that can't be moved holds up the drain, and the plan says why.
# Ctrl-C doesn't abort a move that is in progress.
resource "virtfleet_eviction_policy" "prod" {
  name      = "prod"
  selector  = { labels = { tier = "prod" } }
  strategy  = "LiveMigrate"
  fallback  = "Block"
  priority  = 100
  on_cancel = "finish"

  migration_options = { bandwidth = "1Gi", allow_auto_converge = true }
}

# Staging moves if it can, and is resumed from where it was otherwise.
resource "virtfleet_eviction_policy" "staging" {
  name     = "staging"
  selector = { labels = { tier = "staging" } }
  strategy = "LiveMigrateIfPossible"
  fallback = "Save"
}

# Batch jobs start again by themselves.
resource "virtfleet_eviction_policy" "batch" {
  name     = "batch"
  selector = { labels = { tier = "batch" } }
  strategy = "None"
}

# The database has a cluster manager of its own, which moves it when it sees the mark.
resource "virtfleet_eviction_policy" "database" {
  name     = "database"
  selector = { names = ["db-1", "db-2"] }
  strategy = "External"
  timeout  = "30m"
}
