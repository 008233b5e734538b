# The program of docs/frameworks/rails.md: a Rails service behind `retrysafe proxy`.

require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "rack/handler/puma"

class Shop < Rails::Application
  config.root = __dir__
  config.eager_load = false
  config.secret_key_base = "of a test"
  config.logger = Logger.new($stderr)
  config.hosts.clear
  routes.append { post "/charges", to: "charges#create" }
end

ActiveRecord::Base.establish_connection(ENV.fetch("DATABASE_URL"))

class Charge < ActiveRecord::Base
end

# page: begin
class ChargesController < ActionController::API
  def create
    unless params[:amount].to_i.positive?
      return render json: { error: "amount must be positive" }, status: :bad_request
    end

    lease = request.headers["Retrysafe-Lease"]
    answer = Charge.transaction do
      Charge.connection.exec_query("SELECT retrysafe.hold($1)", "hold", [lease]) # nothing commits without complete
      charge = Charge.create!(customer: params[:customer], amount: params[:amount])
      answer = { id: charge.id, amount: charge.amount }.to_json
      Charge.connection.exec_query("SELECT retrysafe.complete($1, $2, 201)", "complete", [lease, answer])
      answer
    end
    # The transaction is committed: charge and answer are saved together.
    render body: answer, content_type: "application/json", status: :created
  end
end
# page: end

Shop.initialize!
Rack::Handler::Puma.run(Shop, Host: "127.0.0.1", Port: Integer(ARGV[0]))
