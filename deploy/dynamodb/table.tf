# The table of a dynamostore.Store, for Terraform. A test compares it with dynamostore.TableDefinition.
#
#   terraform init && terraform apply

variable "table_name" {
  type    = string
  default = "retrysafe"
}

resource "aws_dynamodb_table" "retrysafe" {
  name         = var.table_name
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "pk"
  range_key    = "sk"

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "S"
  }

  ttl {
    attribute_name = "expires_at"
    enabled        = true
  }

  deletion_protection_enabled = true

  lifecycle {
    prevent_destroy = true
  }
}

output "table_arn" {
  value = aws_dynamodb_table.retrysafe.arn
}
