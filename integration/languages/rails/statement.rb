class ChargesController < ActionController::API
  def create
    unless params[:amount].to_i.positive?
      return render json: { error: "amount must be positive" }, status: :bad_request
    end

    lease = request.headers["Retrysafe-Lease"]
    answer, = Charge.connection.exec_query(<<~SQL, "charge", [params[:customer], params[:amount], lease]).rows.first
      WITH charge AS (
        INSERT INTO charges (customer, amount) VALUES ($1, $2)
        RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer
      ) SELECT answer, retrysafe.complete($3, answer, 201) FROM charge
    SQL
    # The statement has ended: charge and answer are committed together.
    render body: answer, content_type: "application/json", status: :created
  end
end
