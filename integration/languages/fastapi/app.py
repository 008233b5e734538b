"""A FastAPI service with SQLAlchemy behind `retrysafe proxy`."""

import json
import os

import uvicorn
from fastapi import FastAPI, Header, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy import BigInteger, Column, Text, create_engine, text
from sqlalchemy.orm import declarative_base, sessionmaker

app = FastAPI()
engine = create_engine(os.environ["DATABASE_URL"].replace("postgres://", "postgresql+psycopg2://"))
Session = sessionmaker(engine)


class Charge(declarative_base()):
    __tablename__ = "charges"
    id = Column(BigInteger, primary_key=True)
    customer = Column(Text)
    amount = Column(BigInteger)


class Order(BaseModel):
    customer: str
    amount: int


@app.post("/charges")
def create_charge(order: Order, retrysafe_lease: str = Header()):
    if order.amount <= 0:
        return JSONResponse({"error": "amount must be positive"}, status_code=400)

    with Session.begin() as session:
        # From here on nothing commits without complete.
        session.execute(text("SELECT retrysafe.hold(:lease)"), {"lease": retrysafe_lease})
        charge = Charge(customer=order.customer, amount=order.amount)
        session.add(charge)
        session.flush()  # sends the INSERT, so that complete is the last statement
        answer = json.dumps({"id": charge.id, "amount": charge.amount})
        session.execute(
            text("SELECT retrysafe.complete(:lease, :answer, 201)"),
            {"lease": retrysafe_lease, "answer": answer},
        )
    # The block has ended: charge and answer are committed together.
    return Response(answer, status_code=201, media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "3000")))
